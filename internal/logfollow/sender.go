package logfollow

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"sync"
	"time"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/internal/accesslog"
)

const (
	// maxBatch and maxBatchSize bound one batch, in checks and in bytes; JSON at most
	// doubles the latter.
	maxBatch     = 500
	maxBatchSize = 1 << 20
	// shares is how many batches are on their way at a time. The checks of one key are in
	// one share, so that they are decided in the order of their lines.
	shares = 4
	// maxDoubt is how long after it may have been charged a line is sent again. The server
	// knows its idempotency key for a minute.
	maxDoubt = 45 * time.Second
	// source is shown with the offences.
	source = "follow"

	minPause = 100 * time.Millisecond
	maxPause = 5 * time.Second
)

// pendingCheck is a line that was read, or an outcome of its request.
type pendingCheck struct {
	check   client.Check
	outcome string // to be reported; "" for a check
	at      int64  // Unix milliseconds, in the line
	tail    *tail
	start   int64 // offset of the line
	share   uint8
	size    int
	// sentAt is when it may first have been charged, zero if it certainly was not.
	sentAt time.Time
	// isSettled says that it was answered, or is not to be sent any more.
	isSettled bool
}

// report returns the report of the outcome.
func (c *pendingCheck) report() client.Report {
	return client.Report{Key: c.check.Key, Outcome: c.outcome, Request: c.check.Request, Values: c.check.Values, Source: source, ID: c.check.IdempotencyKey}
}

var seed = maphash.MakeSeed()

// add appends the check of a line, and the reports of its outcomes, to f.pending.
func (f *follower) add(t *tail, r *accesslog.Record, line pendingLine) {
	key := accesslog.FullKey(r.Key)
	size := len(key) + len(r.Path) + len(r.Agent) + len(r.Host) + len(r.Account) + 200
	c := pendingCheck{
		check: client.Check{
			Key: key, Policy: f.o.Policy, Cost: r.Cost, Source: source, IdempotencyKey: t.lineKey(line.Start), Fresh: true,
			Request: client.Request{Path: r.Path, Method: r.Method, Agent: r.Agent, Host: r.Host},
		},
		at: r.Time, tail: t, start: line.Start, share: uint8(maphash.String(seed, r.Key.String()) % shares), size: size, sentAt: line.SentAt,
	}
	if r.Account != "" {
		c.check.Values = map[string]string{"account": r.Account}
	}
	if !line.IsChecked && !f.o.OutcomesOnly {
		f.pending = append(f.pending, c)
		f.size += size
	}
	r.Learn(f.o.Outcomes)
	f.outcomes = r.AppendOutcomes(f.outcomes[:0], f.o.Outcomes)
	for _, outcome := range f.outcomes {
		c.outcome = outcome
		f.pending = append(f.pending, c)
		f.size += size
	}
}

// send sends f.pending and waits for the answers.
func (f *follower) send(ctx context.Context) error {
	if len(f.pending) == 0 || f.o.DryRun != nil {
		if f.isDirty {
			f.accept()
		}
		return nil
	}
	return f.deliver(ctx)
}

// deliver sends f.pending until it is answered. When ctx ends, what was not answered stays
// in the state.
func (f *follower) deliver(ctx context.Context) error {
	read := time.Now()
	var outage time.Time
	for {
		f.settleLate()
		rest := f.unsettled()
		if len(rest) == 0 {
			break
		}
		f.sendingAt = f.o.Now().UTC().Round(0)
		if err := f.save(); err != nil {
			return err
		}
		err := f.ask(ctx, rest)
		f.sendingAt = time.Time{}
		if err == nil {
			break
		}
		if err := f.save(); err != nil {
			return err
		}
		if refused := fatal(err); refused != nil {
			return refused
		}
		if f.pace != nil && f.counts.Checked+f.counts.Reported == 0 {
			return fmt.Errorf("%w: %w", ErrNoAnswer, err)
		}
		if outage.IsZero() {
			outage = time.Now()
			f.o.Logf("%v; trying again. The lines wait in the file.", err)
		}
		f.o.Progress.publish(f, read, false)
		if !f.awaitServer(ctx, rest[0].check, read) {
			return nil
		}
	}
	if !outage.IsZero() {
		f.o.Logf("The server answers after %s.", time.Since(outage).Round(time.Second))
	}
	f.maxLag = max(f.maxLag, time.Since(read))
	f.accept()
	f.o.Progress.publish(f, read, true)
	return nil
}

// unsettled returns the part of f.pending that must still be sent.
func (f *follower) unsettled() []*pendingCheck {
	rest := make([]*pendingCheck, 0, len(f.pending))
	for i := range f.pending {
		if !f.pending[i].isSettled {
			rest = append(rest, &f.pending[i])
		}
	}
	return rest
}

// settleLate settles the checks of lines that are too old. One that may have been sent is
// sent again whatever its age.
func (f *follower) settleLate() {
	if f.o.MaxAge <= 0 {
		return
	}
	oldest := f.oldest().UnixMilli()
	for i := range f.pending {
		c := &f.pending[i]
		if c.isSettled || c.at >= oldest || !c.sentAt.IsZero() {
			continue
		}
		if f.counts.Late == 0 {
			f.o.Logf("A line of %q is of %s, which is more than %s ago: it and others as old are not checked. Is its time zone right?",
				c.tail.name, time.UnixMilli(c.at).UTC().Format(time.RFC3339), f.o.MaxAge)
		}
		c.isSettled = true
		if c.outcome == "" {
			f.counts.Late++
		}
	}
}

// ask sends checks in batches. It returns an error unless all are settled.
func (f *follower) ask(ctx context.Context, checks []*pendingCheck) (err error) {
	var parts, reports [shares][]*pendingCheck
	for _, c := range checks {
		into := &parts
		if c.outcome != "" {
			into = &reports
		}
		into[c.share] = append(into[c.share], c)
	}
	var answers [shares]shareAnswers
	var running sync.WaitGroup
	for i := range parts {
		if len(parts[i])+len(reports[i]) > 0 {
			running.Go(func() { answers[i] = f.askShare(context.WithoutCancel(ctx), parts[i], reports[i]) })
		}
	}
	running.Wait()
	var uncertain int64
	var age time.Duration
	for i := range answers {
		a := &answers[i]
		f.counts.add(&a.counts)
		uncertain, age = uncertain+a.counts.Uncertain, max(age, a.age)
		if a.example != nil && f.counts.Rejected == a.counts.Rejected {
			f.o.Logf("The server rejects a check: %v", a.example)
		}
		if err == nil || a.err != nil && fatal(a.err) != nil {
			err = a.err
		}
	}
	if uncertain > 0 {
		f.o.Logf("%d checks and reports are not sent: they may have been charged %s ago, and a line is never charged twice.",
			uncertain, age.Round(time.Second))
	}
	return err
}

// shareAnswers are the answers to the checks of one share.
type shareAnswers struct {
	counts  Summary
	age     time.Duration // of the oldest that is uncertain
	example error         // why the first check was rejected
	err     error
}

// askShare sends the checks, and then the reports of the outcomes.
func (f *follower) askShare(ctx context.Context, checks, reports []*pendingCheck) (a shareAnswers) {
	if f.askBatches(&a, checks, func(batch []*pendingCheck) error { return f.check(ctx, &a, batch) }) {
		f.askBatches(&a, reports, func(batch []*pendingCheck) error { return f.report(ctx, &a, batch) })
	}
	return a
}

// askBatches sends checks in batches until one has no answer. Only that one may have been
// charged, and not if it certainly was not decided.
func (f *follower) askBatches(a *shareAnswers, checks []*pendingCheck, ask func([]*pendingCheck) error) bool {
	for len(checks) > 0 {
		n := batchLength(checks)
		batch := f.settleUncertain(a, checks[:n])
		checks = checks[n:]
		if len(batch) == 0 {
			continue
		}
		if err := ask(batch); err != nil {
			a.err = err
			if !isUndecided(err) {
				for _, c := range batch {
					c.mark(f.sendingAt)
				}
			}
			return false
		}
	}
	return true
}

// check sends one batch of checks.
func (f *follower) check(ctx context.Context, a *shareAnswers, checks []*pendingCheck) error {
	batch := make([]client.Check, len(checks))
	for i, c := range checks {
		batch[i] = c.check
	}
	items, err := f.o.Server.Batch(ctx, batch)
	if err != nil {
		return err
	}
	for i, c := range checks {
		if a.settle(c, items[i].Err, f.sendingAt) {
			a.count(items[i].Decision)
		}
	}
	return nil
}

// report sends one batch of reports.
func (f *follower) report(ctx context.Context, a *shareAnswers, reports []*pendingCheck) error {
	batch := make([]client.Report, len(reports))
	for i, c := range reports {
		batch[i] = c.report()
	}
	items, err := f.o.Server.ReportBatch(ctx, batch)
	if err != nil {
		return err
	}
	for i, c := range reports {
		if a.settle(c, items[i].Err, f.sendingAt) {
			a.counts.Reported++
		}
	}
	return nil
}

// batchLength returns how many of the checks fit into one batch.
func batchLength(checks []*pendingCheck) int {
	n, size := 0, 0
	for n < min(len(checks), maxBatch) && (n == 0 || size+checks[n].size <= maxBatchSize) {
		size += checks[n].size
		n++
	}
	return n
}

// settle records the answer to c, and reports whether it was accepted. What the server
// may answer later is not settled.
func (a *shareAnswers) settle(c *pendingCheck, err error, sentAt time.Time) bool {
	var problem *client.Problem
	if errors.As(err, &problem) && (problem.Status >= http.StatusInternalServerError || problem.Field == "policy") { // no policy of Options.Policy
		if a.err = err; !isUndecided(err) {
			c.mark(sentAt)
		}
		return false
	}
	c.mark(sentAt)
	c.isSettled = true
	if err == nil {
		return true
	}
	a.counts.Rejected++
	if a.example == nil {
		a.example = err
	}
	return false
}

// count counts a decision.
func (a *shareAnswers) count(d *client.Decision) {
	a.counts.Checked++
	switch d.Outcome {
	case client.Allowed:
		a.counts.Allowed++
	case client.Limited:
		a.counts.Limited++
	case client.Blocked:
		a.counts.Blocked++
	case client.Unavailable:
		a.counts.Unavailable++
	}
	if d.Degraded {
		a.counts.Degraded++
	}
	if d.Replayed {
		a.counts.Replayed++
	}
}

// fatal returns the error that ends Run, nil for one that may end by itself.
func fatal(err error) error {
	var problem *client.Problem
	if !errors.As(err, &problem) {
		return nil
	}
	switch {
	case problem.Status == http.StatusUnauthorized || problem.Status == http.StatusForbidden:
		return fmt.Errorf("the check listener refuses the token; use one with the scope check: %w", problem)
	case problem.Status == http.StatusRequestTimeout || problem.Status == http.StatusTooManyRequests || problem.Status >= http.StatusInternalServerError:
		return nil
	}
	return problem
}

// awaitServer waits until the server answers a check that charges nothing. It reports
// false when ctx ends before.
func (f *follower) awaitServer(ctx context.Context, like client.Check, read time.Time) bool {
	like.Peek, like.IdempotencyKey = true, ""
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
		f.o.Progress.publish(f, read, false)
		items, err := f.o.Server.Batch(ctx, []client.Check{like})
		if err == nil && len(items) == 1 {
			var problem *client.Problem
			if !errors.As(items[0].Err, &problem) || problem.Status < http.StatusInternalServerError {
				return true
			}
		}
		if err != nil && fatal(err) != nil {
			return true // the next attempt returns it
		}
	}
}
