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

// maxAsked is how many requests are sent to a remote log at a time. It is the size of one call to
// Redis, so that the requests of other callers are answered between two calls.
const maxAsked = 128

// decideRemotely asks the log about the requests of s, at most maxAsked at a time. The first call
// has the deadline of s. Only batches need further calls; each has a deadline of its own, unless
// g.ofAll is set. Once a deadline has passed, the log is not asked again.
func (s *scratch) decideRemotely(ctx context.Context, g *Gate) {
	for from := 0; from < len(s.requests); from += maxAsked {
		if from > 0 && !g.ofAll && !s.isLate(g) {
			s.until = time.Time{}
		}
		if s.isLate(g) || from > 0 && ctx.Err() != nil {
			for i := range s.results[from:] {
				s.results[from+i].Err = timestamplog.ErrUnreachable
			}
			return
		}
		to := min(from+maxAsked, len(s.requests))
		s.withDeadline(ctx, g, func(limited context.Context) {
			g.log.Decide(limited, s.requests[from:to], s.results[from:to])
		})
	}
}

// isLate reports whether the deadline of s has passed. The first call starts the deadline.
func (s *scratch) isLate(g *Gate) bool {
	now := time.Now()
	if s.until.IsZero() {
		s.until = now.Add(g.deadline)
	}
	return !now.Before(s.until)
}

// withDeadline calls ask with the deadline of s.
func (s *scratch) withDeadline(ctx context.Context, g *Gate, ask func(context.Context)) {
	if s.limited == nil {
		s.limited = new(lazyDeadline)
	}
	*s.limited = lazyDeadline{Context: ctx, until: s.until, timers: &g.timers}
	defer s.endDeadline()
	ask(s.limited)
}

// endDeadline releases the deadline. It keeps its memory for reuse only if nobody has waited for
// its end.
func (s *scratch) endDeadline() {
	s.limited.release()
	if s.limited.isWaitedFor() {
		s.limited = nil
		return
	}
	*s.limited = lazyDeadline{}
}

// fail answers request i as its policy's on_failure says.
func (g *Gate) fail(ctx context.Context, s *scratch, i int) {
	a := s.asked[i]
	if g.decideWithoutLog(a, s.results[i].Err) {
		return
	}
	g.local.Decide(ctx, s.requests[i:i+1], s.results[i:i+1])
	if s.results[i].Err != nil {
		a.leaveUnanswered()
		return
	}
	a.fill(&s.results[i])
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
