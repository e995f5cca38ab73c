package offences_test

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/recorder"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/storetest"
)

func TestFlusherDropsOnlyPoisonRow(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		sink := &poisoning{Sink: f.Offences, bad: "k:17"}
		n := newCounting(t, sink, f.Clock, "a", nil)
		for i := range 50 {
			n.limited("k:"+strconv.Itoa(i), 1)
		}
		n.flush()
		got := ranked(t, f.Store, offences.Query{From: f.Clock.Now(), To: f.Clock.Now().Add(time.Minute)})
		if stats := n.Stats(); len(got) != 49 || got["k:17"] != 0 || stats.Poison != 1 || stats.Waiting != 0 {
			t.Errorf("%d keys are stored, want all but the poison row; %+v", len(got), stats)
		}
	})
}

// poisoning gives the row of one key a meta that no database accepts.
type poisoning struct {
	recorder.Sink
	bad string
}

func (p *poisoning) Flush(ctx context.Context, b *offences.Batch, e offences.Evaluation) ([]offences.EscalationEvent, error) {
	copied := *b
	copied.Offences = slices.Clone(b.Offences)
	for i := range copied.Offences {
		if copied.Offences[i].Key == p.bad {
			copied.Offences[i].Last.Meta = map[string]string{"\xff": "not UTF-8"}
		}
	}
	return p.Sink.Flush(ctx, &copied, e)
}

func TestFlusherCountsOffencesOnceAcrossStoppedDatabase(t *testing.T) {
	server := servers.DedicatedPostgres(t)
	f := storetest.Open(t, server.URL)
	n := newCounting(t, f.Offences, f.Clock, "a", nil)
	n.limited("k:before", 1)
	n.flush()
	server.Stop()
	for range 5 {
		n.limited("k:during", 2)
		short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if err := n.Flush(short); err == nil {
			t.Error("Flush to a stopped database succeeded")
		}
		cancel()
		f.Clock.Advance(time.Second)
	}
	if stats := n.Stats(); stats.Failing == nil || stats.Waiting == 0 {
		t.Errorf("the stats do not show the outage: %+v", stats)
	}
	server.Continue()
	server.Restart(false)
	n.limited("k:after", 1)
	flushSoon(t, n)
	got := ranked(t, f.Store, offences.Query{From: f.Clock.Now().Add(-time.Hour), To: f.Clock.Now().Add(time.Hour)})
	if got["k:before"] != 1 || got["k:during"] != 10 || got["k:after"] != 1 {
		t.Errorf("got %v", got)
	}
	if stats := n.Stats(); stats.Failing != nil || stats.Waiting != 0 || stats.Aggregated != 0 {
		t.Errorf("the stats still show the outage: %+v", stats)
	}
}

// A table that is missing for a while, or that Stint's user may not write, is not a fault of the
// rows to be written.
func TestFlusherKeepsRowsWhileTableIsMissing(t *testing.T) {
	f := storetest.OpenPostgres(t)
	n := newCounting(t, f.Offences, f.Clock, "a", nil)
	for _, away := range []struct{ what, begin, end string }{
		{"no table", "ALTER TABLE offences RENAME TO elsewhere", "ALTER TABLE elsewhere RENAME TO offences"},
		{"no column", "ALTER TABLE offences RENAME COLUMN key TO elsewhere", "ALTER TABLE offences RENAME COLUMN elsewhere TO key"},
	} {
		f.Exec(t, away.begin)
		for range 8 { // so that parts of a batch are tried separately too
			n.limited("k:a", 1)
			n.limited("k:b", 1)
			if err := n.Flush(t.Context()); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "lacks a table or a column") {
				t.Errorf("%s: Flush() = %v, want Unavailable", away.what, err)
			}
		}
		f.Exec(t, away.end)
		flushSoon(t, n)
	}
	got := ranked(t, f.Store, offences.Query{From: f.Clock.Now(), To: f.Clock.Now().Add(time.Minute)})
	if stats := n.Stats(); got["k:a"] != 16 || got["k:b"] != 16 || stats.Poison != 0 || stats.Waiting != 0 {
		t.Errorf("got %v, want 16 each; %+v", got, stats)
	}
}

// flushSoon flushes until the pool has dropped its dead connections.
func flushSoon(t testing.TB, n *counting) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		err := n.Flush(t.Context())
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestFlusherAggregatesOffencesBeyondMaxRows(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		counter := recorder.NewRecorder(recorder.Options{Secret: func() []byte { return offenceSecret }})
		sink := &failing{Sink: f.Offences, err: context.DeadlineExceeded}
		flusher := recorder.NewFlusher(recorder.FlusherOptions{Recorder: counter, Sink: sink, Secret: func() []byte { return offenceSecret },
			MaxRows: 50, Now: f.Clock.Now, Log: slog.New(slog.DiscardHandler)})
		n := newCounting(t, sink, f.Clock, "a", nil)
		n.recorder = counter
		for i := range 400 {
			n.limited("k:"+strconv.Itoa(i), 1)
			if i%20 == 0 {
				if flusher.Flush(t.Context()) == nil {
					t.Fatal("Flush succeeded with a failing sink")
				}
			}
		}
		sink.err = nil
		if err := flusher.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		r, err := f.Offences.Rank(t.Context(), offences.Query{From: f.Clock.Now(), To: f.Clock.Now().Add(time.Minute), Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if r.Offences+r.Other != 400 || r.Other == 0 || flusher.Stats().Aggregated != r.Other {
			t.Errorf("%d offences with a key and %d without, want 400 in total; %+v", r.Offences, r.Other, flusher.Stats())
		}
	})
}

// failing fails every flush while err is set.
type failing struct {
	recorder.Sink
	err error
}

func (s *failing) Flush(ctx context.Context, b *offences.Batch, e offences.Evaluation) ([]offences.EscalationEvent, error) {
	if s.err != nil {
		return nil, s.err
	}
	return s.Sink.Flush(ctx, b, e)
}

func TestFlusherCountsOffencesOnceAcrossKilledDatabase(t *testing.T) {
	server := servers.DedicatedPostgres(t)
	f := storetest.Open(t, server.URL)
	nodes := []*counting{newCounting(t, f.Offences, f.Clock, "a", nil), newCounting(t, f.Another(t).Offences, f.Clock, "b", nil)}
	sent := 0
	for range 3 {
		var flushing sync.WaitGroup
		for _, n := range nodes {
			for i := range 500 {
				n.limited("k:"+strconv.Itoa(i), 1)
				sent++
			}
			flushing.Go(func() { _ = n.Flush(t.Context()) }) // the kill may interrupt it anywhere
		}
		server.Kill()
		flushing.Wait()
		server.Restart(false)
		for _, n := range nodes {
			flushSoon(t, n)
		}
	}
	r, err := f.Offences.Rank(t.Context(), offences.Query{From: f.Clock.Now(), To: f.Clock.Now().Add(time.Minute), Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if r.Offences != int64(sent) || r.Keys != 500 {
		t.Errorf("%d offences of %d keys, want %d of 500", r.Offences, r.Keys, sent)
	}
}
