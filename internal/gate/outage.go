package gate

import (
	"context"
	"errors"
	"time"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// Outage lists the servers of the log that are unreachable. Keys whose logs are on other
// servers are decided as usual.
type Outage struct {
	Since   time.Time // when the first server became unreachable; zero if none is
	Reason  string    // of the outage of that server
	Servers []timestamplog.Outage
}

// Open reports whether there is an outage.
func (o Outage) Open() bool { return !o.Since.IsZero() }

// Outage returns which servers of the log are unreachable, since when and why.
func (g *Gate) Outage() Outage {
	servers := g.log.Outages()
	if len(servers) == 0 {
		return Outage{}
	}
	return Outage{Since: servers[0].Since, Reason: servers[0].Reason, Servers: servers}
}

// fail answers request i as its policy's on_failure says.
func (g *Gate) fail(ctx context.Context, b *batch, i int) {
	a := b.asked[i]
	if g.decideWithoutLog(a, b.results[i].Err) {
		return
	}
	g.local.Decide(ctx, b.requests[i:i+1], b.results[i:i+1])
	if b.results[i].Err != nil {
		a.leaveUnanswered()
		return
	}
	a.fill(&b.results[i])
}

// failAll answers as each policy's on_failure says, after the log failed with err. The local log
// decides the remaining requests as one. refused says that a check is refused already.
func (c *call) failAll(ctx context.Context, b *batch, refused bool, err error) {
	var local batch
	for i, a := range b.asked {
		if c.gate.decideWithoutLog(a, err) {
			refused = refused || a.decision.Outcome != Allowed
			continue
		}
		local.take(b, i)
	}
	if len(local.requests) == 0 {
		return
	}
	if refused && !local.chargesAlways() {
		local.peek()
	}
	local.results = make([]timestamplog.Result, len(local.requests))
	if err := c.gate.local.DecideAll(ctx, local.requests, local.results); err != nil {
		for _, a := range local.asked {
			a.leaveUnanswered()
		}
		return
	}
	local.fill()
}

// leaveUnanswered gives the answer of a request that no log has answered: it is no refusal,
// and so no offence. The local log fails only if the caller has gone away.
func (a asked) leaveUnanswered() {
	outcome, answer := a.answer()
	*outcome, *answer = Unavailable, Answer{Derived: answer.Derived, At: a.decision.At, Rule: -1, RetryAt: a.decision.At.Add(time.Second)}
}

// decideWithoutLog gives the answer of a policy that needs no log, after the log
// failed with err. It reports false if the local log must be asked.
func (g *Gate) decideWithoutLog(a asked, err error) bool {
	a.decision.Degraded = degradedBy(err)
	outcome, answer := a.answer()
	switch {
	case a.policy.OnFailure == rules.FailDeny:
		a.leaveUnanswered()
	case a.policy.OnFailure == rules.FailAllow, g.local == nil: // a log in memory is always reachable
		*outcome, *answer = Allowed, Answer{Derived: answer.Derived, At: a.decision.At, Rule: -1}
	default:
		return false
	}
	return true
}

// The reasons of degraded decisions.
const (
	unreachable     = "The timestamp log is unreachable."
	slotUnavailable = "The Redis Cluster is moving the slot of this key's log, or has no server for it."
	foreign         = "Redis holds something else where the log of a key should be."
	denied          = "Redis does not allow Stint's user a command that this request needs."
)

// failures are the errors of a log, the more specific ones first, each with the reason that a
// degraded decision gives.
var failures = []struct {
	err    error
	reason string
}{
	{timestamplog.ErrSlotUnavailable, slotUnavailable},
	{timestamplog.ErrForeign, foreign},
	{timestamplog.ErrDenied, denied},
	{timestamplog.ErrUnreachable, unreachable},
}

// degradedBy returns the reason of a decision whose log failed with err.
func degradedBy(err error) string {
	for _, f := range failures {
		if errors.Is(err, f.err) {
			return f.reason
		}
	}
	return unreachable
}
