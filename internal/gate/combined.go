package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// Combined is the answer to several checks as one. Its own RetryAt is the latest of
// the parts that refuse, its Reservation the latest of theirs, and no rule is its own.
type Combined struct {
	// Outcome is the gravest of the parts: blocked, unavailable, limited, and
	// allowed only where all are.
	Outcome Outcome
	// ID opens the record of the first part with that outcome where it is a
	// refusal; "" otherwise.
	ID string
	Answer
	// Handle cancels all reservation; "" where none was reserved.
	Handle string
	// Degraded says, where it is not "", which outage it was made under.
	Degraded string
	// Parts say, in order, what each key's own policy does. Where Outcome is
	// not Allowed nothing was charged, whatever a part says, and shadows were
	// not asked.
	Decisions []Decision
}

// Allowed reports whether the request may be done.
func (j *Combined) Allowed() bool { return j.Outcome == Allowed }

// Refused returns the first part with the outcome of the whole, nil where that
// is allowed.
func (j *Combined) Refused() *Decision {
	for i := range j.Decisions {
		if j.Outcome != Allowed && j.Decisions[i].Outcome == j.Outcome {
			return &j.Decisions[i]
		}
	}
	return nil
}

// DecideAll answers 1 to timestamplog.MaxTogether checks as one: each is charged
// if and only if all are allowed. Their MaxWait, ID and Peek must be equal. Only
// the parts that refuse are told to the recorder, or all where all are allowed.
// The error is a *fault.Error, of those of Decide and for logs that cannot be
// asked together; its field names the part as "keys[2]".
func (g *Gate) DecideAll(ctx context.Context, checks []Check) (Combined, error) {
	if !g.view.Loaded() {
		return Combined{}, fault.New(fault.Unavailable, "This node has not loaded its policies and blocks yet; try again in a moment.")
	}
	s := g.scratch.Get().(*scratch)
	defer g.release(s)
	j := Combined{Decisions: make([]Decision, len(checks))}
	if err := g.beforeAll(s, checks, j.Decisions); err != nil {
		return Combined{}, err
	}
	if err := g.askAll(ctx, s, j.gravest() != Allowed); err != nil {
		return Combined{}, err
	}
	if j.Outcome = j.gravest(); j.Outcome == Allowed {
		g.askShadows(ctx, s, j.Decisions)
	}
	j.conclude(g.now())
	maker := g.ids.under(g.view.Settings().Secret)
	var reservations []reserved
	for i := range j.Decisions {
		d := &j.Decisions[i]
		if j.Outcome == Allowed || d.Outcome != Allowed {
			g.after(d, maker)
		}
		reservations = append(reservations, reservationsOf(d)...)
	}
	if first := j.Refused(); first != nil {
		j.ID = first.ID
	}
	if len(reservations) > 0 {
		j.Handle = maker.handle(reservations[0].ID, reservations)
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
			d.Check.ensureID()
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
	case errors.Is(err, timestamplog.ErrCrossSlot):
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
	limited := lazyDeadline{Context: ctx, until: time.Now().Add(g.deadline), timers: &g.timers}
	defer limited.release()
	return g.log.DecideAll(&limited, s.requests, s.results)
}

// failAll does what each policy says where the log failed with err, and has the
// local log decide the others as one.
func (g *Gate) failAll(ctx context.Context, s *scratch, refused bool, err error) {
	var left scratch
	for i, a := range s.asked {
		if g.decideWithoutLog(a, err) {
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

func (j *Combined) gravest() Outcome {
	worst := Allowed
	for i := range j.Decisions {
		if o := j.Decisions[i].Outcome; gravity[o] > gravity[worst] {
			worst = o
		}
	}
	return worst
}

// conclude works out the whole from its parts. now stands where no part was
// asked.
func (j *Combined) conclude(now time.Time) {
	j.Answer = Answer{At: now, Rule: -1}
	for i := range j.Decisions {
		d := &j.Decisions[i]
		if j.Degraded == "" {
			j.Degraded = d.Degraded
		}
		if i == 0 || d.At.After(j.At) {
			j.At = d.At
		}
		if j.Outcome != Allowed { // whatever it would have been, it is not
			d.Delay, d.ReservedAt, d.Shadow = 0, time.Time{}, nil
		}
		j.Delay, j.ReservedAt = max(j.Delay, d.Delay), latest(j.ReservedAt, d.ReservedAt)
		j.Replayed = j.Replayed || d.Replayed
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
