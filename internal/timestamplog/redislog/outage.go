package redislog

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/supervise"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// errOutage is the error of requests that are refused during an outage.
var errOutage = unreachable(errors.New("it is tried again every " + ProbeInterval.String()))

// Outages implements timestamplog.Log: the primaries that are unreachable.
func (l *Log) Outages() []timestamplog.Outage {
	l.outages.Lock()
	defer l.outages.Unlock()
	var all []timestamplog.Outage
	for _, p := range l.away {
		if outage, isOpen := p.breaker.state(); isOpen {
			all = append(all, outage)
		}
	}
	return all
}

// judge notes what a group that was sent to p says about it. err is why its
// caller did not wait for the results, nil where he did.
func (l *Log) judge(ctx context.Context, p *primary, g *group, err error) {
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) && !g.redirected.Load() {
			l.failed(p, err, len(g.items))
		}
		return
	}
	for i := range g.items {
		if err := g.items[i].result.Err; err == nil || !blamesPrimary(err) {
			l.succeeded(p)
			return
		}
	}
	l.judgeError(ctx, p, g.items[0].result.Err, len(g.items))
}

// judgeError notes what a call to p says about it that failed with err, nil where
// it was answered.
func (l *Log) judgeError(ctx context.Context, p *primary, err error, requests int) {
	switch {
	case err == nil || !blamesPrimary(err):
		l.succeeded(p)
	case !errors.Is(ctx.Err(), context.Canceled): // its caller did not go away
		l.failed(p, err, requests)
	}
}

// failed notes a failure of p, which may begin an outage.
func (l *Log) failed(p *primary, err error, requests int) {
	l.outages.Lock()
	defer l.report()
	defer l.outages.Unlock()
	if l.closing.Err() != nil { // requests fail as the connections close
		return
	}
	if !p.breaker.failed(p.name, err, requests, time.Now()) {
		return
	}
	l.away = append(l.away, p)
	outage, _ := p.breaker.state()
	l.note(timestamplog.OutageEvent{Outage: outage})
	if !p.probed {
		p.probed = true
		l.probes.Go(func() {
			supervise.Run(l.closing, "recovery probe", func(context.Context) { l.awaitRecovery(p) })
		})
	}
}

// succeeded notes that p answered, which may end an outage.
func (l *Log) succeeded(p *primary) {
	if !p.breaker.troubled.Load() {
		return
	}
	l.outages.Lock()
	defer l.report()
	defer l.outages.Unlock()
	outage, wasOpen := p.breaker.succeeded()
	if !wasOpen {
		return
	}
	l.away = slices.DeleteFunc(l.away, func(other *primary) bool { return other == p })
	l.note(timestamplog.OutageEvent{Outage: outage, Ended: time.Now()})
}

// note queues e for report.
func (l *Log) note(e timestamplog.OutageEvent) {
	if l.onOutage != nil {
		l.unreported = append(l.unreported, e)
	}
}

// report calls onOutage with the queued events, in order. Of the log's locks it holds
// only reporting during the calls.
func (l *Log) report() {
	if l.onOutage == nil {
		return
	}
	l.reporting.Lock()
	defer l.reporting.Unlock()
	for {
		l.outages.Lock()
		events := l.unreported
		l.unreported = nil
		l.outages.Unlock()
		if len(events) == 0 {
			return
		}
		for _, e := range events {
			l.onOutage(e)
		}
	}
}

// awaitRecovery asks p until its outage is over or the log is closed. It does not
// wait for a request to come: the first one after the outage is decided again.
func (l *Log) awaitRecovery(p *primary) {
	probe := time.NewTicker(ProbeInterval)
	defer probe.Stop()
	for {
		select {
		case <-l.closing.Done():
			return
		case <-probe.C:
		}
		err := l.probe(l.closing, p)
		if p.breaker.open.Load() && err == nil {
			l.succeeded(p)
		}
		if l.endProbes(p) {
			return
		}
		if err != nil {
			p.breaker.explain(err)
		}
	}
}

// endProbes reports whether p need not be asked any more.
func (l *Log) endProbes(p *primary) bool {
	l.outages.Lock()
	defer l.outages.Unlock()
	p.probed = p.breaker.open.Load()
	return !p.probed
}
