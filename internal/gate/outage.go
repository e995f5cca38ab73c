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
	Since   time.Time // when the first became unreachable; zero if none is
	Reason  string    // of the first
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

// decideRemotely asks the log within the deadline.
func (g *Gate) decideRemotely(ctx context.Context, s *scratch) {
	limited := lazyDeadline{Context: ctx, until: time.Now().Add(g.deadline), timers: &g.timers}
	defer limited.release()
	g.log.Decide(&limited, s.requests, s.results)
}

// fail answers request i as its policy's on_failure says.
func (g *Gate) fail(ctx context.Context, s *scratch, i int) {
	a := s.asked[i]
	if g.decideWithoutLog(a, s.results[i].Err) {
		return
	}
	g.local.Decide(ctx, s.requests[i:i+1], s.results[i:i+1])
	a.fill(&s.results[i])
}

// decideWithoutLog gives the answer of a policy that needs no log, after the log
// failed with err. It reports false if the local log must be asked.
func (g *Gate) decideWithoutLog(a asked, err error) bool {
	a.decision.Degraded = unreachable
	if errors.Is(err, timestamplog.ErrSlotUnavailable) {
		a.decision.Degraded = slotUnavailable
	}
	outcome, answer := a.answer()
	switch {
	case a.policy.OnFailure == rules.FailDeny:
		*outcome, *answer = Unavailable, Answer{At: a.decision.At, Rule: -1, RetryAt: a.decision.At.Add(time.Second)}
	case a.policy.OnFailure == rules.FailAllow, g.local == nil: // a log in memory is always reachable
		*outcome, *answer = Allowed, Answer{At: a.decision.At, Rule: -1}
	default:
		return false
	}
	return true
}

// The messages of an outage, and of a log whose server is reachable.
const (
	unreachable     = "The timestamp log is unreachable."
	slotUnavailable = "The Redis Cluster is moving the slot of this key's log, or has no server for it."
)
