package gate

import (
	"context"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// ProbeInterval is how often a log that is out of reach is tried again.
const ProbeInterval = 250 * time.Millisecond

// patience is how many checks in a row may run into their deadline before the
// others stop waiting for a log that does not answer.
const patience = 3

// breaker remembers that the log is out of reach, so that during an outage no
// check waits for it; a probe finds out when it is back.
type breaker struct {
	mu       sync.Mutex
	failures int // in a row
	open     bool
	since    time.Time
	reason   string
	probing  bool
	probed   time.Time
}

// allow reports whether the log should be asked and, if not, whether the
// caller should start a probe.
func (b *breaker) allow(now time.Time) (ask, probe bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		return true, false
	}
	if b.probing || now.Sub(b.probed) < ProbeInterval {
		return false, false
	}
	b.probing, b.probed = true, now
	return false, true
}

func (b *breaker) failed(err error, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures++
	b.reason = err.Error()
	if !b.open && b.failures >= patience {
		b.open, b.since, b.probed = true, now, now
	}
}

func (b *breaker) worked() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures, b.open, b.reason = 0, false, ""
}

func (b *breaker) endProbe(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
	if err == nil {
		b.failures, b.open, b.reason = 0, false, ""
	} else {
		b.reason = err.Error()
	}
}

// Outage is the state of the log as the gate sees it.
type Outage struct {
	Since  time.Time // zero: the log answers
	Reason string
}

// Outage returns whether the log is out of reach, since when and why.
func (g *Gate) Outage() Outage {
	g.outage.mu.Lock()
	defer g.outage.mu.Unlock()
	if !g.outage.open {
		return Outage{}
	}
	return Outage{Since: g.outage.since, Reason: g.outage.reason}
}

// decideRemotely asks the log within the deadline, unless it is known to be
// out of reach.
func (g *Gate) decideRemotely(ctx context.Context, s *scratch) {
	now := g.now()
	ask, probe := g.outage.allow(now)
	if probe {
		go g.probe()
	}
	if !ask {
		for i := range s.results {
			s.results[i].Err = timestamplog.ErrUnreachable
		}
		return
	}
	limited, cancel := context.WithTimeout(ctx, g.deadline)
	defer cancel()
	g.log.Decide(limited, s.requests, s.results)
	for i := range s.results {
		if err := s.results[i].Err; err != nil {
			// A caller who went away says nothing about the log.
			if ctx.Err() == nil {
				g.outage.failed(err, now)
			}
			return
		}
	}
	g.outage.worked()
}

// probe asks the log for the time, which charges nobody.
func (g *Gate) probe() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := g.log.Now(ctx)
	g.outage.endProbe(err)
}

// fail does for request i what its policy says about an outage.
func (g *Gate) fail(ctx context.Context, s *scratch, i int) {
	a := s.asked[i]
	a.decision.Degraded = "The timestamp log is out of reach."
	answer := Answer{At: a.decision.At, Rule: -1}
	switch {
	case a.policy.OnFailure == rules.FailAllow:
		a.put(Allowed, answer)
	case a.policy.OnFailure == rules.FailDeny:
		answer.RetryAt = answer.At.Add(time.Second)
		a.put(Unavailable, answer)
	case g.local != nil:
		g.local.Decide(ctx, s.requests[i:i+1], s.results[i:i+1])
		a.take(&s.results[i])
	default: // a log in memory fails nobody
		a.put(Allowed, answer)
	}
}
