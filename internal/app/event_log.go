package app

import (
	"context"
	"fmt"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stint-dev/stint/internal/buildinfo"
	"github.com/stint-dev/stint/internal/eventlog"
	"github.com/stint-dev/stint/internal/supervise"
)

// eventLog writes decisions and changes for other programs. A nil eventLog writes nothing.
type eventLog struct {
	log     *eventlog.Log
	changes *eventlog.Changes
	isSent  bool // to syslog
}

func (a *App) buildEventLog() error {
	s := a.settings.EventLog
	if s.To.IsZero() {
		return nil
	}
	log, err := eventlog.New(eventlog.Options{
		Settings: s, Backlog: filepath.Join(a.settings.DataDir, "event-log"), Node: a.settings.NodeName, Version: buildinfo.Read().Version,
		OmitPaths: !a.settings.RecordPaths, OmitAgents: !a.settings.RecordAgents, Parser: a.catalog.Parser, Stdout: a.stdout, Log: a.log,
	})
	if err != nil {
		return fmt.Errorf("--event-log: %s", oneLine(err))
	}
	if s.To.Stdout {
		signal.Ignore(syscall.SIGPIPE) // by default a write to standard output that nobody reads ends the process
	}
	a.eventLog = &eventLog{log: log, changes: eventlog.NewChanges(log, a.backends.store.Audit, a.id, a.log), isSent: s.To.Syslog != ""}
	a.catalog.OnChange(a.eventLog.changes.Changed)
	a.metrics.Registry().MustRegister(
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "stint_event_log_omitted_total",
			Help: "Events that the event log lacks, since there were more than could be written or kept."},
			func() float64 { return float64(log.Omitted()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "stint_event_log_waiting_bytes", Help: "Bytes on disk that syslog has not received."},
			func() float64 { return float64(log.Waiting()) }))
	return nil
}

func (l *eventLog) tasks(prepared func(context.Context)) []task {
	if l == nil {
		return nil
	}
	return []task{
		{"event log", l.log.Run},
		{"syslog", l.log.Send},
		{"changes for the event log", func(ctx context.Context) {
			prepared(ctx)
			l.changes.Run(ctx)
		}},
	}
}

// save describes whether events are written, for health and alerts. A receiver that is gone for a moment is no failure.
func (l *eventLog) save() saveReader {
	words, grace := written, time.Duration(0)
	if l.isSent {
		words, grace = toSyslog, time.Minute
	}
	return saveReader{"event-log", "The event log", words, func() saveState {
		s := l.log.State()
		if s.Err != nil && time.Since(s.Since) < grace {
			s.Err, s.Since = nil, time.Time{}
		}
		return saveState{good: s.Good, err: s.Err, since: s.Since}
	}}
}

// close writes what waits in memory.
func (l *eventLog) close(ctx context.Context) error {
	if l == nil {
		return nil
	}
	done := make(chan error, 1)
	go func() {
		err := supervise.Call("event log", l.log.Close)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done(): // nobody reads standard output
		return ctx.Err()
	}
}
