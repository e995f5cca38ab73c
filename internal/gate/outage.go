package gate

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/supervise"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// ProbeInterval is how often a log that is out of reach is tried again.
const ProbeInterval = 250 * time.Millisecond

// patience is how many checks in a row may run into their deadline before the
// others stop waiting for a log that does not answer.
const patience = 3

// breaker remembers that the log is out of reach, so that during an outage no
// check waits for it.
type breaker struct {
	troubled atomic.Bool // something below is not zero
	mu       sync.Mutex
	failures int // in a row
	outage   Outage
}

// Outage is the state of the log as the gate sees it.
type Outage struct {
	Since  time.Time // zero: the log answers
	Reason string
}

// Open reports whether there is an outage.
func (o Outage) Open() bool { return !o.Since.IsZero() }

// Outage returns whether the log is out of reach, since when and why.
func (g *Gate) Outage() Outage { return g.breaker.state() }

func (b *breaker) state() Outage {
	if !b.troubled.Load() {
		return Outage{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.outage
}

// failed notes a failure and reports whether it is the one that begins an
// outage.
func (b *breaker) failed(err error, now time.Time) (begins bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.troubled.Store(true)
	b.failures++
	if b.failures < patience || b.outage.Open() {
		return false
	}
	b.outage = Outage{Since: now, Reason: err.Error()}
	return true
}

func (b *breaker) worked() {
	if !b.troubled.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures, b.outage = 0, Outage{}
	b.troubled.Store(false)
}

// decideRemotely asks the log within the deadline, unless it is known to be
// out of reach.
func (g *Gate) decideRemotely(ctx context.Context, s *scratch) {
	if g.Outage().Open() {
		for i := range s.results {
			s.results[i].Err = timestamplog.ErrUnreachable
		}
		return
	}
	limited := within{Context: ctx, until: time.Now().Add(g.deadline), alarms: &g.alarms}
	defer limited.release()
	g.log.Decide(&limited, s.requests, s.results)
	asked := false
	for i := range s.results {
		asked = asked || !s.results[i].Remembered
		if err := s.results[i].Err; err != nil {
			g.failed(ctx, err)
			return
		}
	}
	if asked {
		g.breaker.worked()
	}
}

// failed notes that the log did not answer. A caller who went away says nothing
// about the log.
func (g *Gate) failed(ctx context.Context, err error) {
	if ctx.Err() == nil && g.breaker.failed(err, g.now()) {
		g.watching.Go(func() {
			supervise.Run(context.Background(), "recovery probe", func(context.Context) { g.awaitRecovery() })
		})
	}
}

// awaitRecovery asks the log for the time, which charges nobody, until it
// answers or the gate is closed. It does not wait for a check to come: the
// first one after the outage is decided by the log again.
func (g *Gate) awaitRecovery() {
	probe := time.NewTicker(ProbeInterval)
	defer probe.Stop()
	for {
		select {
		case <-g.closed:
			return
		case <-probe.C:
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, err := g.log.Now(ctx)
		cancel()
		if err == nil {
			g.breaker.worked()
			return
		}
	}
}

// Close stops watching for the end of an outage. Checks may still be decided.
func (g *Gate) Close() {
	close(g.closed)
	g.watching.Wait()
}

// fail does for request i what its policy says about an outage.
func (g *Gate) fail(ctx context.Context, s *scratch, i int) {
	a := s.asked[i]
	if g.withoutLog(a) {
		return
	}
	g.local.Decide(ctx, s.requests[i:i+1], s.results[i:i+1])
	a.take(&s.results[i])
}

// withoutLog gives the answer of a policy that needs no log in an outage, and
// reports false where the local log is to be asked.
func (g *Gate) withoutLog(a asked) bool {
	a.decision.Degraded = outOfReach
	outcome, answer := a.answer()
	switch {
	case a.policy.OnFailure == rules.FailDeny:
		*outcome, *answer = Unavailable, Answer{At: a.decision.At, Rule: -1, RetryAt: a.decision.At.Add(time.Second)}
	case a.policy.OnFailure == rules.FailAllow, g.local == nil: // a log in memory fails nobody
		*outcome, *answer = Allowed, Answer{At: a.decision.At, Rule: -1}
	default:
		return false
	}
	return true
}

// outOfReach is what people are told of an outage.
const outOfReach = "The timestamp log is out of reach."
