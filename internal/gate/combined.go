package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// Combined is the answer to several checks as one. Its RetryAt is the latest of the decisions
// that refuse, its ReservedAt is the latest of all, and it has no Rule.
type Combined struct {
	// Outcome is the gravest outcome of the decisions: blocked, then unavailable, then limited.
	// It is allowed only if all are.
	Outcome Outcome
	// ID is the ID of the first decision with this outcome if it is a refusal, otherwise zero.
	ID offences.RefusalID
	Answer
	// Handle cancels all reservations; "" if there is none.
	Handle string
	// Degraded describes the outage during which the checks were decided, "" for none.
	Degraded string
	// Decisions are the decisions of each check, in order. If Outcome is not Allowed, nothing was
	// charged unless ChargeAlways is set, whatever the decisions say, and shadow policies were
	// not asked.
	Decisions []Decision
}

// Allowed reports whether all checks are allowed.
func (c *Combined) Allowed() bool { return c.Outcome == Allowed }

// Refused returns the first decision with the combined outcome, nil if the outcome is Allowed.
func (c *Combined) Refused() *Decision {
	for i := range c.Decisions {
		if c.Outcome != Allowed && c.Decisions[i].Outcome == c.Outcome {
			return &c.Decisions[i]
		}
	}
	return nil
}

// DecideAll answers 1 to timestamplog.MaxCombined checks as one: each is charged if and only if
// all are allowed. With ChargeAlways, if any check is refused, each check that has a rule that
// could refuse it is charged what fits. MaxWait, ID, Peek and ChargeAlways of all checks must be
// equal. Either all decisions are recorded, if all are allowed, or only those that refuse. The
// error is a *fault.Error, either one of Decide or the one for logs that cannot be decided as
// one. Its field names the check, such as "keys[2]".
func (g *Gate) DecideAll(ctx context.Context, checks []Check) (Combined, error) {
	if !g.view.Loaded() {
		return Combined{}, errNotLoaded
	}
	s := g.scratch.Get().(*scratch)
	defer s.release()
	c := Combined{Decisions: make([]Decision, len(checks))}
	if err := g.prepareAll(checks, c.Decisions); err != nil {
		return Combined{}, err
	}
	var err error
	if c.Outcome, err = g.decideAsOne(ctx, s, c.Decisions); err != nil {
		return Combined{}, err
	}
	c.conclude(g.now())
	signer := presentSigner(g)
	var reservations []reserved
	for i := range c.Decisions {
		d := &c.Decisions[i]
		if c.Outcome == Allowed || d.Outcome != Allowed {
			g.finish(d, signer)
		}
		reservations = append(reservations, reservationsOf(d)...)
	}
	if first := c.Refused(); first != nil {
		c.ID = first.ID
	}
	if len(reservations) > 0 {
		c.Handle = signer.handle(reservations[0].ID, reservations)
	}
	return c, nil
}

// prepareAll calls prepare for each check. No two checks may be about the same log.
func (g *Gate) prepareAll(checks []Check, decisions []Decision) error {
	type log struct {
		policy int64
		key    string
	}
	selector, set, now := g.view.Selector(), g.view.Blocks(), g.now()
	first := make(map[log]int, len(checks))
	id := ""
	for i := range checks {
		d := &decisions[i]
		d.begin(&checks[i], now)
		if i == 0 {
			d.Check.ensureID()
			id = d.Check.ID
		}
		d.Check.ID = id
		if err := g.prepare(d, selector, set); err != nil {
			return inCheck(i, err)
		}
		about := log{policyID(d.Policy), d.Check.Key.String()}
		if other, twice := first[about]; twice {
			return fault.Field(fmt.Sprintf("keys[%d]", i), "is the same key under the same policy as keys[%d]; send it once, with the cost of both", other)
		}
		first[about] = i
	}
	dropRepeated(decisions)
	return nil
}

// inCheck adds the check's index to the field of err, unless the field is common to all checks.
func inCheck(i int, err error) error {
	var invalid *fault.Error
	if !errors.As(err, &invalid) || invalid.Field == "" || invalid.Field == "max_wait" {
		return err
	}
	in := *invalid
	in.Field = fmt.Sprintf("keys[%d].%s", i, invalid.Field)
	return &in
}

// errTooMany is the cause of the error for checks with more logs than one call of the log decides.
var errTooMany = errors.New("too many logs for one call")

// decideAsOne decides prepared decisions and their Additional, all or nothing, and returns the
// gravest outcome. If that is not Allowed, nothing was charged unless ChargeAlways is set, and
// shadow policies that need a log were not asked.
func (g *Gate) decideAsOne(ctx context.Context, s *scratch, decisions []Decision) (Outcome, error) {
	refused := gravest(decisions) != Allowed
	for i := range decisions {
		if gravest(decisions[i:i+1]) == Allowed || decisions[i].Check.ChargeAlways {
			s.queueEnforcing(&decisions[i])
		}
	}
	if len(s.requests) > timestamplog.MaxCombined {
		refused = s.askUncharged(ctx, g) || refused
	}
	if len(s.requests) > timestamplog.MaxCombined {
		mistake := fault.Field("keys", "are decided by %d policies; the most in one check is %d", len(s.requests), timestamplog.MaxCombined)
		mistake.Err = errTooMany
		return "", mistake
	}
	if err := s.checkReservable(); err != nil {
		return "", err
	}
	if err := g.askAll(ctx, s, refused); err != nil {
		return "", err
	}
	outcome := gravest(decisions)
	if outcome == Allowed {
		g.askShadows(ctx, s, decisions)
	}
	for i := range decisions {
		decisions[i].settle()
	}
	return outcome, nil
}

// askUncharged asks the requests of s that charge nothing, each on its own, so that the others
// fit into one call. It reports whether any refuses. If the check can wait long enough for one of
// them, that one is allowed. The one with the longest wait stays in s, so that the others are
// reserved for its time.
func (s *scratch) askUncharged(ctx context.Context, g *Gate) (refused bool) {
	uncharged := scratch{until: s.until}
	rest, longest := 0, -1
	for i := range s.requests {
		if s.requests[i].Uncharged {
			uncharged.requests, uncharged.asked = append(uncharged.requests, s.requests[i]), append(uncharged.asked, s.asked[i])
			continue
		}
		s.requests[rest], s.asked[rest] = s.requests[i], s.asked[i]
		rest++
	}
	s.requests, s.asked = s.requests[:rest], s.asked[:rest]
	g.askLog(ctx, &uncharged)
	s.until = uncharged.until
	for i, a := range uncharged.asked {
		switch d := a.decision; {
		case d.Outcome != Allowed:
			refused = true
		case d.Delay > 0 && (longest < 0 || d.Delay > uncharged.asked[longest].decision.Delay):
			longest = i
		}
	}
	if longest >= 0 {
		s.requests, s.asked = append(s.requests, uncharged.requests[longest]), append(s.asked, uncharged.asked[longest])
	}
	return refused
}

// askAll fills in the log's results for all checks, or what each policy answers without the log.
// refused says that a check is refused already, so that nothing may be charged.
func (g *Gate) askAll(ctx context.Context, s *scratch, refused bool) error {
	if len(s.requests) == 0 {
		return nil
	}
	s.peekAll(refused && !s.asked[0].decision.Check.ChargeAlways)
	s.results = append(s.results[:0], make([]timestamplog.Result, len(s.requests))...)
	err := g.decideAll(ctx, s)
	switch {
	case err == nil:
		for i := range s.results {
			s.asked[i].fill(&s.results[i])
		}
	case errors.Is(err, timestamplog.ErrCrossSlot) && s.reservesFurther():
		mistake := fault.Field("max_wait", "cannot be granted: the policy counts further keys of the request, which lie in other slots of the Redis Cluster, so that "+
			"they cannot be reserved as one; send it without max_wait, or run Stint on a Redis that is no Cluster")
		mistake.Err = err
		return mistake
	case errors.Is(err, timestamplog.ErrCrossSlot) && s.waits():
		return s.reserveOwn(ctx, g, refused)
	case errors.Is(err, timestamplog.ErrCrossSlot) && s.isOfOneCheck():
		s.askApart(ctx, g)
	case errors.Is(err, timestamplog.ErrCrossSlot):
		mistake := fault.Field("keys", "lie in different slots of the Redis Cluster, so they cannot be decided as one; "+
			"ask about them one by one, or run Stint on a Redis that is no Cluster")
		mistake.Err = err
		return mistake
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

// decideAll calls Log.DecideAll with the deadline of s.
func (g *Gate) decideAll(ctx context.Context, s *scratch) (err error) {
	if g.local == nil {
		return g.log.DecideAll(ctx, s.requests, s.results)
	}
	if s.isLate(g) {
		return timestamplog.ErrUnreachable
	}
	s.withDeadline(ctx, g, func(limited context.Context) { err = g.log.DecideAll(limited, s.requests, s.results) })
	return err
}

// failAll answers as each policy's on_failure says, after the log failed with err. The local log
// decides the remaining requests as one.
func (g *Gate) failAll(ctx context.Context, s *scratch, refused bool, err error) {
	var local scratch
	for i, a := range s.asked {
		if g.decideWithoutLog(a, err) {
			refused = refused || a.decision.Outcome != Allowed
			continue
		}
		local.requests, local.asked = append(local.requests, s.requests[i]), append(local.asked, a)
	}
	if len(local.requests) == 0 {
		return
	}
	local.peekAll(refused && !local.asked[0].decision.Check.ChargeAlways)
	local.results = make([]timestamplog.Result, len(local.requests))
	if err := g.local.DecideAll(ctx, local.requests, local.results); err != nil {
		for _, a := range local.asked {
			a.leaveUnanswered()
		}
		return
	}
	for i, a := range local.asked {
		a.fill(&local.results[i])
	}
}

// askShadows asks the shadow policies, each on its own.
func (g *Gate) askShadows(ctx context.Context, s *scratch, decisions []Decision) {
	s.requests, s.asked = s.requests[:0], s.asked[:0]
	for i := range decisions {
		s.queueShadows(&decisions[i])
	}
	s.refuseWaits()
	g.askLog(ctx, s)
}

// gravity orders the outcomes; a higher value is graver.
var gravity = map[Outcome]int{Allowed: 0, Limited: 1, Unavailable: 2, Blocked: 3}

func gravest(decisions []Decision) Outcome {
	worst := Allowed
	for i := range decisions {
		for _, o := range [...]Outcome{decisions[i].Outcome, gravest(decisions[i].Additional)} {
			if gravity[o] > gravity[worst] {
				worst = o
			}
		}
	}
	return worst
}

// conclude sets the Answer of c from those of its decisions. now is its time if there are none.
func (c *Combined) conclude(now time.Time) {
	c.Answer = Answer{At: now, Rule: -1}
	for i := range c.Decisions {
		d := &c.Decisions[i]
		if c.Degraded == "" {
			c.Degraded = d.Degraded
		}
		if i == 0 || d.At.After(c.At) {
			c.At = d.At
		}
		if c.Outcome != Allowed { // nothing was reserved
			d.withdraw()
		}
		c.Delay, c.ReservedAt = max(c.Delay, d.Delay), latest(c.ReservedAt, d.ReservedAt)
		c.Replayed = c.Replayed || d.Replayed
		if d.Outcome != Allowed {
			c.RetryAt, c.Never = latest(c.RetryAt, d.RetryAt), c.Never || d.Never
		}
	}
	if c.Never {
		c.RetryAt = time.Time{}
	}
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
