package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
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
	// Hold is what all checks hold.
	Hold Hold
	// Degraded describes the outage during which the checks were decided, "" for none.
	Degraded string
	// Decisions are the decisions of each check, in order. If Outcome is not Allowed, nothing was
	// charged unless ChargeAlways is set, whatever the decisions say, and shadow policies were
	// not asked.
	Decisions []Decision
}

// Allowed reports whether all checks are allowed.
func (c *Combined) Allowed() bool { return c.Outcome == Allowed }

// Plain returns the combined outcome in words that every client knows; see Decision.Plain.
func (c *Combined) Plain() Outcome {
	if d := c.Refused(); d != nil {
		return d.Plain()
	}
	return c.Outcome
}

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
	return g.decideAll(ctx, checks, false)
}

// DecideAllOrApart is DecideAll for gateways, which cannot ask about their keys one by one and
// may let a request pass if the answer is an error. If the logs of the keys are in different
// slots of a Redis Cluster, or more than one call of the log decides, it first peeks at each and
// then charges each if none is refused. Another request may use up a limit in between: then the
// request is refused although some of its keys were charged. MaxWait must be 0.
func (g *Gate) DecideAllOrApart(ctx context.Context, checks []Check) (Combined, error) {
	return g.decideAll(ctx, checks, true)
}

func (g *Gate) decideAll(ctx context.Context, checks []Check, mayAskApart bool) (Combined, error) {
	if !g.view.Loaded() {
		return Combined{}, errNotLoaded
	}
	asking := g.begin()
	defer asking.end()
	c := Combined{Decisions: make([]Decision, len(checks))}
	if err := g.prepareAll(checks, c.Decisions); err != nil {
		return Combined{}, err
	}
	selector, set := g.view.Selector(), g.view.Blocks()
	isBotCharged := false // once for the one request
	for i := range c.Decisions {
		d := &c.Decisions[i]
		d.Check.countsBot = !isBotCharged
		isBotCharged = asking.planEvidence(d, selector, set) || isBotCharged
	}
	asking.ask(ctx, &asking.charges)
	var err error
	if c.Outcome, err = asking.decideAsOne(ctx, c.Decisions, mayAskApart); err != nil {
		return Combined{}, err
	}
	c.conclude(g.now())
	signer := asking.first.signer
	var reservations []reserved
	refused := c.Refused()
	for i := range c.Decisions {
		d := &c.Decisions[i]
		d.Check.countsBot = d == refused || refused == nil && i == 0
		if c.Outcome == Allowed || d.Outcome != Allowed {
			asking.sayEvidence(ctx, d)
			g.finish(d, signer)
		}
		reservations = append(reservations, reservationsOf(d)...)
	}
	if refused != nil {
		c.ID = refused.ID
	}
	if len(reservations) > 0 {
		c.Handle = signer.handle(reservations[0].ID, reservations)
	}
	if c.Outcome == Allowed {
		c.Hold = signer.holdOf(c.Decisions)
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
	id, address, isRefused := "", keys.Key{}, false // of the one request
	for i := range checks {
		d := &decisions[i]
		d.begin(&checks[i], now)
		if g.findClient(&d.Check); address.IsZero() {
			address = d.Check.address()
		}
		isRefused = isRefused || g.isRefusedUnread(&d.Check, set, now)
	}
	for i := range decisions {
		d := &decisions[i]
		if i == 0 {
			d.Check.ensureID()
			id = d.Check.ID
		}
		d.Check.ID = id
		if d.Check.Address.IsZero() {
			d.Check.Address = address
		}
		g.identify(&d.Check, selector, useOf(&d.Check, isRefused))
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
	return prepareHold(decisions)
}

// inCheck adds the check's index to the field of err, unless the field is common to all checks.
func inCheck(i int, err error) error {
	var invalid *fault.Error
	if !errors.As(err, &invalid) || invalid.Field == "" || invalid.Field == "max_wait" || invalid.Field == "hold" || invalid.Field == "cancellable" {
		return err
	}
	in := *invalid
	in.Field = fmt.Sprintf("keys[%d].%s", i, invalid.Field)
	return &in
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
