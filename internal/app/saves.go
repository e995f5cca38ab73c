package app

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stint-dev/stint/internal/adminui"
	"github.com/stint-dev/stint/internal/wire"
)

// save is something that a node writes again and again, so that a stop or a crash loses little. It
// is safe for concurrent use.
type save struct {
	name string // a label of metrics
	what string // for people, as the beginning of a sentence

	mu    sync.Mutex
	state saveState
}

// saveState is the state of a save.
type saveState struct {
	good  time.Time // when it last succeeded, zero if that is not known
	err   error     // of the last attempt, nil if it succeeded
	since time.Time // of the first of the present failures
}

// done notes an attempt.
func (s *save) done(at time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.state = saveState{good: at}
	case s.state.err == nil:
		s.state.err, s.state.since = err, at
	default:
		s.state.err = err
	}
}

func (s *save) read() saveState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// saveReader reads the state of one save.
type saveReader struct {
	name, what string
	words      *saveWords
	read       func() saveState
}

// saveWords say that a save fails, and that it succeeds again.
type saveWords struct{ trouble, never, cause, recovery, during, after string }

var (
	written = &saveWords{
		trouble: "cannot be written", never: "was not written since this node started", recovery: "is written again", cause: "Often the disk is full.",
		during: "Checks go on. What is not written is lost if the node stops or crashes; often the disk is full. The log of the node says why.",
		after:  "A stop or a crash loses nothing that was written.",
	}
	sent = &saveWords{
		trouble: "cannot be delivered", never: "was waiting when this node started", recovery: "waits no longer", cause: "The page Notifications says which channel does not accept it.",
		during: "It has waited in the outbox for a quarter of an hour, and is tried again. The page Notifications says which channel does not accept it, and why.",
		after:  "No message waits in the outbox for long.",
	}
	toSyslog = &saveWords{
		trouble: "cannot be sent to syslog", never: "was not sent since this node started", recovery: "is sent to syslog again", cause: "The log of the node says why.",
		during: "Checks go on. Events wait on disk, up to --event-log-size; beyond that the oldest are deleted. The log of the node says why.",
		after:  "What waited on disk is sent.",
	}
)

// saves are all saves of a node. Readiness, health, metrics and notifications read them.
type saves []saveReader

func (all *saves) add(s *save) { *all = append(*all, saveReader{s.name, s.what, written, s.read}) }

// failures describes the saves that fail, without the errors, which name files.
func (all saves) failures() (texts []string, since time.Time) {
	for _, s := range all {
		state := s.read()
		if state.err == nil {
			continue
		}
		text := s.what + " " + s.words.trouble + " since " + state.since.UTC().Format("2006-01-02 15:04:05") + " UTC"
		if state.good.IsZero() {
			text += ", and " + s.words.never
		} else {
			text += fmt.Sprintf("; the last good one is %s old", time.Since(state.good).Round(time.Second))
		}
		texts = append(texts, text)
		if since.IsZero() || state.since.Before(since) {
			since = state.since
		}
	}
	return texts, since
}

// part describes the saves in the readiness. A node that cannot save still answers every check,
// and another node could not answer for it: it stays ready.
func (all saves) part() wire.Part {
	texts, since := all.failures()
	if len(texts) > 0 {
		return wire.Part{Name: "saves", Since: wire.At(since), Detail: strings.Join(texts, "; ")}
	}
	var ages []string
	for _, s := range all {
		if state := s.read(); !state.good.IsZero() {
			ages = append(ages, fmt.Sprintf("%s %s ago", s.name, time.Since(state.good).Round(time.Second)))
		}
	}
	return wire.Part{Name: "saves", OK: true, Detail: strings.Join(ages, ", ")}
}

// health describes the saves on the overview; Trouble is "" if all is well.
func (all saves) health() adminui.Part {
	p := adminui.Part{Name: "Saves"}
	if texts, _ := all.failures(); len(texts) > 0 {
		p.Trouble, p.Text = "failing", strings.Join(texts, ". ")+". The log of the node says why."
		for _, s := range all {
			if s.read().err != nil && !strings.Contains(p.Text, s.words.cause) {
				p.Text += " " + s.words.cause
			}
		}
	}
	return p
}

// alerts returns what notifies people when a save fails, and when it succeeds again.
func (all saves) alerts(n *notifier) (alerts []*outageAlert) {
	for _, s := range all {
		send := n.notify
		if s.words == sent {
			send = n.notifyOfBacklog
		}
		alerts = append(alerts, &outageAlert{
			server: s.what, node: n.node, trouble: s.words.trouble, recovery: s.words.recovery, notify: send,
			since:  func() time.Time { return s.read().since },
			during: s.words.during, after: s.words.after,
		})
	}
	return alerts
}

// watch returns a task that checks the alerts.
func (all saves) watch(n *notifier) func(context.Context) {
	alerts := all.alerts(n)
	return every(outageInterval, func(ctx context.Context) {
		for _, a := range alerts {
			a.check(ctx)
		}
	})
}

var (
	saveGoodDesc    = prometheus.NewDesc("stint_save_last_success_timestamp_seconds", "When a periodic save of this node last succeeded; absent if that is not known.", []string{"save"}, nil)
	saveFailingDesc = prometheus.NewDesc("stint_save_failing", "1 while a periodic save of this node fails: snapshot, backup, last-known, offences, event-log or notifications.", []string{"save"}, nil)
)

// Describe implements prometheus.Collector.
func (all saves) Describe(to chan<- *prometheus.Desc) {
	to <- saveGoodDesc
	to <- saveFailingDesc
}

// Collect implements prometheus.Collector.
func (all saves) Collect(to chan<- prometheus.Metric) {
	for _, s := range all {
		state := s.read()
		if !state.good.IsZero() {
			to <- prometheus.MustNewConstMetric(saveGoodDesc, prometheus.GaugeValue, float64(state.good.UnixMilli())/1000, s.name)
		}
		to <- prometheus.MustNewConstMetric(saveFailingDesc, prometheus.GaugeValue, one(state.err != nil), s.name)
	}
}
