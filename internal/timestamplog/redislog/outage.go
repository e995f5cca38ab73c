package redislog

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/supervise"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// errOutage is the error of requests that are refused during an outage.
var errOutage = unreachable(errors.New("it is tried again every " + ProbeInterval.String()))

// outages begins and ends the outages of primaries, according to the results of requests and
// probes.
type outages struct {
	onOutage func(timestamplog.OutageEvent) // may be nil
	probe    func(context.Context, *primary) error

	mu         sync.Mutex
	away       []*primary // the primaries with an outage, the longest outage first
	unreported []timestamplog.OutageEvent
	reporting  sync.Mutex
	probes     sync.WaitGroup
	closing    context.Context // ends when close is called
	cancel     context.CancelFunc
}

func newOutages(onOutage func(timestamplog.OutageEvent), probe func(context.Context, *primary) error) *outages {
	o := &outages{onOutage: onOutage, probe: probe}
	o.closing, o.cancel = context.WithCancel(context.Background())
	return o
}

// close ends the probes. Failures no longer begin an outage.
func (o *outages) close() {
	o.mu.Lock()
	o.cancel()
	o.mu.Unlock()
	o.probes.Wait()
}

// list returns the outages of the primaries that are unreachable.
func (o *outages) list() []timestamplog.Outage {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all []timestamplog.Outage
	for _, p := range o.away {
		if outage, isOpen := p.breaker.state(); isOpen {
			all = append(all, outage)
		}
	}
	return all
}

// judge records a success or a failure of p after a group was sent to it. err is the reason why
// the caller did not wait for the results, nil if it did. If a group needs several calls and p
// has answered some of them, p is busy, not unreachable.
func (o *outages) judge(ctx context.Context, p *primary, g *group, err error) {
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) && !g.redirected.Load() && !g.partly.Load() {
			o.failed(p, err, len(g.items))
		}
		return
	}
	for i := range g.items {
		if err := g.items[i].result.Err; err == nil || !blamesPrimary(err) {
			o.succeeded(p)
			return
		}
	}
	o.judgeError(ctx, p, g.items[0].result.Err, len(g.items))
}

// judgeCall records a success or a failure of p after a call about items. err is the error of
// the whole call, if any. A primary that answers late has answered.
func (o *outages) judgeCall(p *primary, items []*item, err error) {
	if err != nil && !errors.Is(err, errLate) {
		o.judgeError(context.Background(), p, failure(err), len(items))
		return
	}
	for _, it := range items {
		if err := it.result.Err; err == nil || !blamesPrimary(err) || errors.Is(err, errLate) {
			o.succeeded(p)
			return
		}
	}
	o.failed(p, items[0].result.Err, len(items))
}

// judgeError records a success or a failure of p according to err, the error of a call to it,
// nil if p answered.
func (o *outages) judgeError(ctx context.Context, p *primary, err error, requests int) {
	switch {
	case err == nil || !blamesPrimary(err):
		o.succeeded(p)
	case !errors.Is(ctx.Err(), context.Canceled): // its caller did not go away
		o.failed(p, err, requests)
	}
}

// failed records a failure of p, which may begin an outage.
func (o *outages) failed(p *primary, err error, requests int) {
	o.mu.Lock()
	defer o.report()
	defer o.mu.Unlock()
	if o.closing.Err() != nil { // requests fail while the connections are being closed
		return
	}
	if !p.breaker.failed(p.name, err, requests, time.Now()) {
		return
	}
	o.away = append(o.away, p)
	outage, _ := p.breaker.state()
	o.note(timestamplog.OutageEvent{Outage: outage})
	if !p.probed {
		p.probed = true
		o.probes.Go(func() {
			supervise.Run(o.closing, "recovery probe", func(context.Context) { o.awaitRecovery(p) })
		})
	}
}

// succeeded records that p answered, which may end an outage.
func (o *outages) succeeded(p *primary) {
	if !p.breaker.troubled.Load() {
		return
	}
	o.mu.Lock()
	defer o.report()
	defer o.mu.Unlock()
	outage, wasOpen := p.breaker.succeeded()
	if !wasOpen {
		return
	}
	o.away = slices.DeleteFunc(o.away, func(other *primary) bool { return other == p })
	o.note(timestamplog.OutageEvent{Outage: outage, Ended: time.Now()})
}

// note queues e for report.
func (o *outages) note(e timestamplog.OutageEvent) {
	if o.onOutage != nil {
		o.unreported = append(o.unreported, e)
	}
}

// report calls onOutage with the queued events, in order. During the calls it holds no lock of
// the log except reporting.
func (o *outages) report() {
	if o.onOutage == nil {
		return
	}
	o.reporting.Lock()
	defer o.reporting.Unlock()
	for {
		o.mu.Lock()
		events := o.unreported
		o.unreported = nil
		o.mu.Unlock()
		if len(events) == 0 {
			return
		}
		for _, e := range events {
			o.onOutage(e)
		}
	}
}

// awaitRecovery probes p until its outage is over or the log is closed. So the outage ends
// without a request, and the first request after it is decided again.
func (o *outages) awaitRecovery(p *primary) {
	probe := time.NewTicker(ProbeInterval)
	defer probe.Stop()
	for {
		select {
		case <-o.closing.Done():
			return
		case <-probe.C:
		}
		err := o.probe(o.closing, p)
		if p.breaker.open.Load() && err == nil {
			o.succeeded(p)
		}
		if o.endProbes(p) {
			return
		}
		if err != nil {
			p.breaker.explain(err)
		}
	}
}

// endProbes reports whether p needs no more probes.
func (o *outages) endProbes(p *primary) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	p.probed = p.breaker.open.Load()
	return !p.probed
}
