package gate

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/supervise"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// run decides the planned checks.
func (c *call) run(ctx context.Context, decisions []Decision, errs []error) {
	c.first.refuseWaits()
	c.ask(ctx, &c.first)
	if len(c.afterOutcomes) > 0 {
		c.runAfterOutcomes(ctx, decisions)
	}
	if len(c.together) > 0 {
		c.runTogether(ctx, decisions, errs)
	}
}

// runAfterOutcomes asks the own policies of the checks whose policies with an outcome have
// answered, and settles these checks. It asks also if the log did not answer about these: their
// further keys may be on another server, and what fails about one log may work for another.
func (c *call) runAfterOutcomes(ctx context.Context, decisions []Decision) {
	c.first.empty()
	for _, i := range c.afterOutcomes {
		c.first.addOwn(&decisions[i])
	}
	c.ask(ctx, &c.first)
	for _, i := range c.afterOutcomes {
		d := &decisions[i]
		refused := gravest(d.Additional) != Allowed
		if d.settle(); refused {
			d.withdraw()
		}
	}
}

// maxParallel is how many checks of a batch are sent to a remote log at the same time, if each is
// decided by several policies.
const maxParallel = 64

// runTogether decides each check that several policies decide as one. With a remote log it decides
// several checks concurrently, so checks of the same key may be decided in any order. Each has a
// deadline of its own, unless that of c has passed or applies to the batch as a whole.
func (c *call) runTogether(ctx context.Context, decisions []Decision, errs []error) {
	g, late := c.gate, time.Time{}
	if g.local != nil && (c.isLate() || g.ofAll) {
		late = c.until
	}
	decide := func(i int) {
		own := g.begin()
		defer own.end()
		own.until = late
		var outcome Outcome
		if outcome, errs[i] = own.decideAsOne(ctx, decisions[i:i+1], false); errs[i] == nil && outcome != Allowed {
			decisions[i].withdraw()
		}
	}
	if g.local == nil || len(c.together) == 1 {
		for _, i := range c.together {
			decide(i)
		}
		return
	}
	var running sync.WaitGroup
	next := make(chan int)
	for range min(maxParallel, len(c.together)) {
		running.Go(func() {
			supervise.Do("checks", func() {
				for i := range next {
					errs[i] = supervise.Call("check", func() error { decide(i); return errs[i] })
				}
			})
		})
	}
	for _, i := range c.together {
		next <- i
	}
	close(next)
	running.Wait()
}

// decideAsOne decides prepared decisions and their Additional, all or nothing, and returns the
// gravest outcome. If that is not Allowed, nothing was charged unless ChargeAlways is set, and
// shadow policies that need a log were not asked. mayAskApart permits what askApart does if no
// one call of the log can decide them; without it only the further keys of one check are asked so.
func (c *call) decideAsOne(ctx context.Context, decisions []Decision, mayAskApart bool) (Outcome, error) {
	c.first.empty()
	for i := range decisions {
		if gravest(decisions[i:i+1]) == Allowed || decisions[i].Check.ChargeAlways {
			c.first.addEnforcing(&decisions[i])
		}
	}
	if err := c.askAsOne(ctx, &c.first, gravest(decisions) != Allowed, mayAskApart); err != nil {
		return "", err
	}
	outcome := gravest(decisions)
	if outcome == Allowed {
		c.first.empty()
		for i := range decisions {
			c.first.addShadows(&decisions[i])
		}
		c.first.refuseWaits()
		c.ask(ctx, &c.first)
	}
	for i := range decisions {
		decisions[i].settle()
	}
	return outcome, nil
}

// askAsOne asks requests that are charged all or not at all. refused says that a check is refused
// already, so that nothing may be charged.
func (c *call) askAsOne(ctx context.Context, b *batch, refused, mayAskApart bool) error {
	if len(b.requests) > timestamplog.MaxCombined {
		refused = c.askUncharged(ctx, b) || refused
	}
	if len(b.requests) == 0 {
		return nil
	}
	if err := b.checkReservable(); err != nil {
		return err
	}
	if refused && !b.chargesAlways() {
		b.peek()
	}
	if len(b.requests) > timestamplog.MaxCombined {
		if mayAskApart {
			c.askApart(ctx, b)
			return nil
		}
		return fault.Field("keys", "are decided by %d policies; the most in one check is %d", len(b.requests), timestamplog.MaxCombined)
	}
	err := c.decideAll(ctx, b)
	if errors.Is(err, timestamplog.ErrCrossSlot) {
		return c.askAcrossSlots(ctx, b, refused, mayAskApart)
	}
	if err != nil {
		c.failAll(ctx, b, refused, err)
		return nil
	}
	b.fill()
	return nil
}

// checkReservable returns an error if a handle cannot hold the further keys of checks with a
// MaxWait or a Hold. Those that are only Cancellable have no handle then.
func (b *batch) checkReservable() error {
	size := 0
	for i, a := range b.asked {
		if (a.decision.Check.MaxWait > 0 || a.decision.Check.Cancellable || b.requests[i].Hold > 0) && a.chargesFurther() {
			size += len(b.requests[i].Key)
		}
	}
	if size > maxDerivedBytes {
		isHeld := slices.ContainsFunc(b.requests, func(r timestamplog.Request) bool { return r.Hold > 0 })
		field := "hold"
		switch c := &b.asked[0].decision.Check; {
		case c.MaxWait > 0:
			field = "max_wait"
		case !isHeld:
			for _, a := range b.asked {
				a.decision.Check.Cancellable = false
			}
			return nil
		}
		return fault.Field(field, "cannot be granted: the further keys of the request have %d bytes, and those of a reservation or a hold may have %d", size, maxDerivedBytes)
	}
	return nil
}

// askUncharged asks the requests of b that charge nothing, each on its own, so that the others
// fit into one call, and removes them from b. It reports whether any refuses. If the check can wait
// long enough for one of them, that one is allowed. The one with the longest wait stays in b, so
// that the others are reserved for its time.
func (c *call) askUncharged(ctx context.Context, b *batch) (refused bool) {
	uncharged, rest := b.split(func(r *timestamplog.Request, _ asked) bool { return r.Uncharged })
	c.ask(ctx, &uncharged)
	longest := -1
	for i, a := range uncharged.asked {
		switch d := a.decision; {
		case d.Outcome != Allowed:
			refused = true
		case d.Delay > 0 && (longest < 0 || d.Delay > uncharged.asked[longest].decision.Delay):
			longest = i
		}
	}
	if longest >= 0 {
		rest.take(&uncharged, longest)
	}
	*b = rest
	return refused
}

// askAcrossSlots asks requests whose logs are in different slots of a Redis Cluster, which no one
// call reaches.
func (c *call) askAcrossSlots(ctx context.Context, b *batch, refused, mayAskApart bool) error {
	isOne := b.isOfOneCheck()
	waits := isOne && b.asked[0].decision.Check.MaxWait > 0
	switch {
	case waits && slices.ContainsFunc(b.asked, asked.chargesFurther):
		mistake := fault.Field("max_wait", "cannot be granted: the policy counts further keys of the request, which lie in other slots of the Redis Cluster, so that "+
			"they cannot be reserved as one; send it without max_wait, or run Stint on a Redis that is no Cluster")
		mistake.Err = timestamplog.ErrCrossSlot
		return mistake
	case waits:
		// The further keys charge nothing. They are asked first, each on its own and without waiting
		// for it, and the requests about the check's own key then are reserved for one time.
		further, own := b.split(func(_ *timestamplog.Request, a asked) bool { return a.isFurther() })
		further.refuseWaits()
		c.ask(ctx, &further)
		return c.askAsOne(ctx, &own, refused || !further.allows(), false)
	case isOne || mayAskApart:
		c.askApart(ctx, b)
		return nil
	}
	mistake := fault.Field("keys", "lie in different slots of the Redis Cluster, so they cannot be decided as one; "+
		"ask about them one by one, or run Stint on a Redis that is no Cluster")
	mistake.Err = timestamplog.ErrCrossSlot
	return mistake
}

// askApart asks each request on its own, first without charging, then, if none refuses, charging
// each. Another request may use up a limit in between: then the request is refused although some of
// its keys were charged. A peek does not detect a replay. So if a check with an ID is refused, its
// refusing requests are charged first; if they are replays, or have room by now, the others are
// charged too. As in Log.DecideAll, no refusal is counted, even if a policy's count_refused is set:
// a request that is sent again would be counted each time.
func (c *call) askApart(ctx context.Context, b *batch) {
	var charges []bool // which requests peek first and are charged later
	for i := range b.requests {
		r := &b.requests[i]
		charges = append(charges, !r.Peek && !r.Uncharged && !r.ChargeAlways)
		r.Peek = r.Peek || !r.ChargeAlways
	}
	c.ask(ctx, b)
	var refusing, rest batch
	for i, a := range b.asked {
		outcome, _ := a.answer()
		into := &rest
		if *outcome != Allowed {
			if !charges[i] || b.requests[i].ID == "" || a.decision.Degraded != "" {
				return
			}
			into = &refusing
		}
		if charges[i] {
			b.requests[i].Peek, b.requests[i].Options.CountRefused = false, false
			into.take(b, i)
		}
	}
	for _, a := range refusing.asked {
		outcome, _ := a.answer()
		*outcome = Allowed
	}
	if c.ask(ctx, &refusing); refusing.allows() {
		c.ask(ctx, &rest)
	}
	if !refusing.allows() || !rest.allows() {
		refusing.releaseHolds(ctx, c.gate.log)
		rest.releaseHolds(ctx, c.gate.log)
	}
}

// releaseHolds releases what the requests of b hold, which another request of their check was refused
// beside. What cannot be released expires.
func (b *batch) releaseHolds(ctx context.Context, log timestamplog.Log) {
	for i := range b.results {
		if r := &b.requests[i]; r.Hold > 0 && !r.Peek && b.results[i].Allowed && b.asked[i].decision.Degraded == "" {
			_, _ = log.Settle(ctx, timestamplog.Settlement{Request: *r})
		}
	}
}

// ask asks each request on its own, and fills in the log's results, or what each policy answers
// without the log.
func (c *call) ask(ctx context.Context, b *batch) {
	if len(b.requests) == 0 {
		return
	}
	g := c.gate
	b.results = append(b.results[:0], make([]timestamplog.Result, len(b.requests))...)
	for i, a := range b.asked {
		if b.requests[i].Detail && !a.shadow {
			b.results[i].States = a.decision.room
		}
	}
	if g.local == nil {
		g.log.Decide(ctx, b.requests, b.results)
	} else {
		c.askRemotely(ctx, b)
	}
	for i := range b.results {
		if b.results[i].Err != nil {
			g.fail(ctx, b, i)
			continue
		}
		b.asked[i].fill(&b.results[i])
	}
}

// maxAsked is how many requests are sent to a remote log at a time. It is the size of one call to
// Redis, so that the requests of other callers are answered between two calls.
const maxAsked = 128

// askRemotely asks the log about the requests of b, at most maxAsked at a time. The first call
// has the deadline of c. Only batches need further calls; each has a deadline of its own, unless
// g.ofAll is set. Once a deadline has passed, the log is not asked again.
func (c *call) askRemotely(ctx context.Context, b *batch) {
	g := c.gate
	for from := 0; from < len(b.requests); from += maxAsked {
		if from > 0 && !g.ofAll && !c.isLate() {
			c.until = time.Time{}
		}
		if c.isLate() || from > 0 && ctx.Err() != nil {
			for i := range b.results[from:] {
				b.results[from+i].Err = timestamplog.ErrUnreachable
			}
			return
		}
		to := min(from+maxAsked, len(b.requests))
		c.withDeadline(ctx, func(limited context.Context) {
			g.log.Decide(limited, b.requests[from:to], b.results[from:to])
		})
	}
}

// decideAll calls Log.DecideAll with the deadline of c.
func (c *call) decideAll(ctx context.Context, b *batch) (err error) {
	b.results = append(b.results[:0], make([]timestamplog.Result, len(b.requests))...)
	if c.gate.local == nil {
		return c.gate.log.DecideAll(ctx, b.requests, b.results)
	}
	if c.isLate() {
		return timestamplog.ErrUnreachable
	}
	c.withDeadline(ctx, func(limited context.Context) { err = c.gate.log.DecideAll(limited, b.requests, b.results) })
	return err
}

// isLate reports whether the deadline of c has passed. The first call starts the deadline.
func (c *call) isLate() bool {
	now := time.Now()
	if c.until.IsZero() {
		c.until = now.Add(c.gate.deadline)
	}
	return !now.Before(c.until)
}

// withDeadline calls ask with the deadline of c. It keeps the memory of the deadline for reuse only
// if nobody has waited for its end.
func (c *call) withDeadline(ctx context.Context, ask func(context.Context)) {
	if c.limited == nil {
		c.limited = new(lazyDeadline)
	}
	*c.limited = lazyDeadline{Context: ctx, until: c.until, timers: &c.gate.timers}
	defer func() {
		c.limited.release()
		if c.limited.isWaitedFor() {
			c.limited = nil
			return
		}
		*c.limited = lazyDeadline{}
	}()
	ask(c.limited)
}
