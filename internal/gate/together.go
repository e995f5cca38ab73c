package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// Joint is the answer to several checks as one. Its own RetryAt is the latest of
// the parts that refuse, its Turn the latest of theirs, and no rule is its own.
type Joint struct {
	// Outcome is the gravest of the parts: blocked, unavailable, limited, and
	// allowed only where all are.
	Outcome Outcome
	// ID opens the record of the first part with that outcome where it is a
	// refusal; "" otherwise.
	ID string
	Answer
	// Handle gives all turns back; "" where none was reserved.
	Handle string
	// Degraded says, where it is not "", which outage it was made under.
	Degraded string
	// Parts say, in order, what each key's own policy does. Where Outcome is
	// not Allowed nothing was charged, whatever a part says, and shadows were
	// not asked.
	Parts []Decision
}

// Allowed reports whether the request may be done.
func (j *Joint) Allowed() bool { return j.Outcome == Allowed }

// Refused returns the first part with the outcome of the whole, nil where that
// is allowed.
func (j *Joint) Refused() *Decision {
	for i := range j.Parts {
		if j.Outcome != Allowed && j.Parts[i].Outcome == j.Outcome {
			return &j.Parts[i]
		}
	}
	return nil
}

// DecideAll answers 1 to timestamplog.MaxTogether checks as one: each is charged
// if and only if all are allowed. Their MaxWait, ID and Peek must be equal. Only
// the parts that refuse are told to the recorder, or all where all are allowed.
// The error is a *fault.Error, of those of Decide and for logs that cannot be
// asked together; its field names the part as "keys[2]".
func (g *Gate) DecideAll(ctx context.Context, checks []Check) (Joint, error) {
	if !g.view.Loaded() {
		return Joint{}, fault.New(fault.Unavailable, "This node has not loaded its policies and blocks yet; try again in a moment.")
	}
	s := g.scratch.Get().(*scratch)
	defer g.release(s)
	j := Joint{Parts: make([]Decision, len(checks))}
	if err := g.beforeAll(s, checks, j.Parts); err != nil {
		return Joint{}, err
	}
	if err := g.askAll(ctx, s, j.gravest() != Allowed); err != nil {
		return Joint{}, err
	}
	if j.Outcome = j.gravest(); j.Outcome == Allowed {
		g.askShadows(ctx, s, j.Parts)
	}
	j.conclude(g.now())
	maker := g.ids.under(g.view.Settings().Secret)
	var turns []reserved
	for i := range j.Parts {
		d := &j.Parts[i]
		if j.Outcome == Allowed || d.Outcome != Allowed {
			g.after(d, maker)
		}
		turns = append(turns, turnsOf(d)...)
	}
	if first := j.Refused(); first != nil {
		j.ID = first.ID
	}
	if len(turns) > 0 {
		j.Handle = maker.handle(turns[0].ID, turns)
	}
	return j, nil
}

// beforeAll decides what needs no log and queues what does. No two checks may
// be about one log.
func (g *Gate) beforeAll(s *scratch, checks []Check, parts []Decision) error {
	type log struct {
		policy int64
		key    string
	}
	selector, set, now := g.view.Selector(), g.view.Blocks(), g.now()
	first := make(map[log]int, len(checks))
	id := ""
	for i := range checks {
		d := &parts[i]
		d.begin(&checks[i], now)
		if i == 0 {
			d.Check.nameTurn()
			id = d.Check.ID
		}
		d.Check.ID = id
		if err := g.before(s, d, selector, set); err != nil {
			return inPart(i, err)
		}
		about := log{policyID(d.Policy), d.Check.Key.String()}
		if other, twice := first[about]; twice {
			return fault.Field(fmt.Sprintf("keys[%d]", i), "is the same key under the same policy as keys[%d]; send it once, with the cost of both", other)
		}
		first[about] = i
	}
	return nil
}

// inPart says in which part a field is wrong, but for those that all have in
// common.
func inPart(i int, err error) error {
	var mistake *fault.Error
	if !errors.As(err, &mistake) || mistake.Field == "" || mistake.Field == "max_wait" {
		return err
	}
	in := *mistake
	in.Field = fmt.Sprintf("keys[%d].%s", i, mistake.Field)
	return &in
}

// askAll fills in what the log says of all parts, or what each policy does
// without it. refused says that a part refuses already, so that nothing may be
// charged.
func (g *Gate) askAll(ctx context.Context, s *scratch, refused bool) error {
	if len(s.requests) == 0 {
		return nil
	}
	s.peekAll(refused)
	s.results = append(s.results[:0], make([]timestamplog.Result, len(s.requests))...)
	err := g.decideAll(ctx, s)
	switch {
	case err == nil:
		for i := range s.results {
			s.asked[i].take(&s.results[i])
		}
	case errors.Is(err, timestamplog.ErrApart):
		return fault.Field("keys", "lie in different slots of the Redis Cluster, so they cannot be decided as one; "+
			"ask about them one by one, or run Stint on a Redis that is no Cluster")
	default:
		g.failAll(ctx, s, refused, err)
	}
	return nil
}

func (s *scratch) peekAll(peek bool) {
	for i := range s.requests {
		s.requests[i].Peek = s.requests[i].Peek || peek
	}
}

// decideAll asks the log within the deadline.
func (g *Gate) decideAll(ctx context.Context, s *scratch) error {
	if g.local == nil {
		return g.log.DecideAll(ctx, s.requests, s.results)
	}
	limited := within{Context: ctx, until: time.Now().Add(g.deadline), alarms: &g.alarms}
	defer limited.release()
	return g.log.DecideAll(&limited, s.requests, s.results)
}

// failAll does what each policy says where the log failed with err, and has the
// local log decide the others as one.
func (g *Gate) failAll(ctx context.Context, s *scratch, refused bool, err error) {
	var left scratch
	for i, a := range s.asked {
		if g.withoutLog(a, err) {
			refused = refused || a.decision.Outcome != Allowed
			continue
		}
		left.requests, left.asked = append(left.requests, s.requests[i]), append(left.asked, a)
	}
	if len(left.requests) == 0 {
		return
	}
	left.peekAll(refused)
	left.results = make([]timestamplog.Result, len(left.requests))
	if err := g.local.DecideAll(ctx, left.requests, left.results); err != nil {
		return // the caller has gone; a log in memory fails nobody
	}
	for i, a := range left.asked {
		a.take(&left.results[i])
	}
}

// askShadows asks the policies that only watch, each on its own.
func (g *Gate) askShadows(ctx context.Context, s *scratch, parts []Decision) {
	s.requests, s.asked = s.requests[:0], s.asked[:0]
	for i := range parts {
		if d := &parts[i]; d.Shadow != nil {
			s.ask(d, d.Shadow.Policy, true)
		}
	}
	g.askLog(ctx, s)
}

// gravity orders the outcomes.
var gravity = map[Outcome]int{Allowed: 0, Limited: 1, Unavailable: 2, Blocked: 3}

func (j *Joint) gravest() Outcome {
	worst := Allowed
	for i := range j.Parts {
		if o := j.Parts[i].Outcome; gravity[o] > gravity[worst] {
			worst = o
		}
	}
	return worst
}

// conclude works out the whole from its parts. now stands where no part was
// asked.
func (j *Joint) conclude(now time.Time) {
	j.Answer = Answer{At: now, Rule: -1}
	for i := range j.Parts {
		d := &j.Parts[i]
		if j.Degraded == "" {
			j.Degraded = d.Degraded
		}
		if i == 0 || d.At.After(j.At) {
			j.At = d.At
		}
		if j.Outcome != Allowed { // whatever it would have been, it is not
			d.Wait, d.Turn, d.Shadow = 0, time.Time{}, nil
		}
		j.Wait, j.Turn = max(j.Wait, d.Wait), latest(j.Turn, d.Turn)
		j.Repeated = j.Repeated || d.Repeated
		if d.Outcome != Allowed {
			j.RetryAt, j.Never = latest(j.RetryAt, d.RetryAt), j.Never || d.Never
		}
	}
	if j.Never {
		j.RetryAt = time.Time{}
	}
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
