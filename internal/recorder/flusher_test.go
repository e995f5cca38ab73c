package recorder

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
)

// memorySink adds up batches and fails as configured. It does not model a database: the tests of
// those are in their packages.
type memorySink struct {
	mu    sync.Mutex
	fail  func(*offences.Batch) error
	seen  map[string]bool
	count int64
	last  time.Time
}

func (s *memorySink) Flush(_ context.Context, b *offences.Batch, _ offences.Evaluation) ([]offences.EscalationEvent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		if err := s.fail(b); err != nil {
			return nil, err
		}
	}
	if s.seen[b.ID] {
		return nil, nil
	}
	s.seen[b.ID] = true
	for _, o := range b.Offences {
		s.count += o.Count
	}
	s.last = time.Now()
	return nil, nil
}

// Abandon marks a batch as written, like the databases.
func (s *memorySink) Abandon(_ context.Context, id string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	written := s.seen[id]
	s.seen[id] = true
	return written, nil
}

func testFlusher(s Sink) (*Recorder, *Flusher) {
	r := testRecorder(Options{})
	return r, NewFlusher(FlusherOptions{Recorder: r, Sink: s, Node: "a", Secret: func() []byte { return secret }, Log: slog.New(slog.DiscardHandler)})
}

func TestOffenceIsWrittenWithinTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &memorySink{seen: map[string]bool{}}
		r, f := testFlusher(s)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { f.Run(ctx) })
		time.Sleep(300 * time.Millisecond)
		counted := time.Now()
		r.Record(limited(key(t, "k:x"), counted, 1))
		time.Sleep(2 * time.Second)
		s.mu.Lock()
		if s.count != 1 || s.last.Sub(counted) > 2*time.Second {
			t.Errorf("%d offences were written after %s, want 1 within 2s", s.count, s.last.Sub(counted))
		}
		s.mu.Unlock()
		r.Record(limited(key(t, "k:x"), time.Now(), 1))
		cancel()
		running.Wait()
		if err := f.Close(t.Context()); err != nil || s.count != 2 {
			t.Errorf("after Close %d offences are written, %v; want 2", s.count, err)
		}
	})
}

func TestBatchWithALostCommitIsNotAddedTwice(t *testing.T) {
	s := &memorySink{seen: map[string]bool{}}
	r, f := testFlusher(s)
	r.Record(limited(key(t, "k:x"), noon, 1))
	lost := &lostAnswers{Sink: s, left: 3}
	f.Sink = lost
	for range 3 {
		if f.Flush(t.Context()) == nil {
			t.Fatal("Flush returned no error although the answer was lost")
		}
		r.Record(limited(key(t, "k:x"), noon, 1))
	}
	if err := f.Flush(t.Context()); err != nil || s.count != 4 {
		t.Errorf("%d offences are written, %v; want 4", s.count, err)
	}
}

// lostAnswers writes batches and then reports that the database is unreachable.
type lostAnswers struct {
	Sink
	left int
}

func (l *lostAnswers) Flush(ctx context.Context, b *offences.Batch, e offences.Evaluation) ([]offences.EscalationEvent, error) {
	events, err := l.Sink.Flush(ctx, b, e)
	if l.left > 0 {
		l.left--
		return nil, fault.New(fault.Unavailable, "gone")
	}
	return events, err
}

func TestNoRowIsLostWhileTheDatabaseRefusesWrites(t *testing.T) {
	broken := errors.New("the table is missing")
	s := &memorySink{seen: map[string]bool{}, fail: func(*offences.Batch) error { return broken }}
	r, f := testFlusher(s)
	for range 20 {
		r.Record(limited(key(t, "k:x"), noon, 1))
		if err := f.Flush(t.Context()); !errors.Is(err, broken) {
			t.Fatalf("got %v", err)
		}
	}
	s.fail = nil
	if err := f.Flush(t.Context()); err != nil || s.count != 20 || f.Stats().Poison != 0 || f.Stats().Waiting != 0 {
		t.Errorf("%d offences of 20, %+v, %v", s.count, f.Stats(), err)
	}
}

// Without this line nothing reports that keys are no longer blocked automatically.
func TestCountsThatCannotBeWrittenAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &memorySink{seen: map[string]bool{}, fail: func(*offences.Batch) error { return fault.New(fault.Unavailable, "can only be read") }}
		r, f := testFlusher(s)
		var log bytes.Buffer
		f.Log = slog.New(slog.NewTextHandler(&log, nil))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { f.Run(ctx) })
		for range 60 {
			r.Record(limited(key(t, "k:x"), time.Now(), 1))
			time.Sleep(FlushInterval)
		}
		s.mu.Lock()
		s.fail = nil
		s.mu.Unlock()
		time.Sleep(time.Minute)
		cancel()
		running.Wait()
		text := log.String()
		if strings.Count(text, "offences and counts cannot be written") != 1 || strings.Count(text, "offences and counts are written again") != 1 {
			t.Errorf("the log has\n%s", text)
		}
		if s.count != 60 {
			t.Errorf("%d offences of 60 were written", s.count)
		}
	})
}

func TestEscalationDurationsGrowToTheMaximumWithoutOverflow(t *testing.T) {
	l := offences.EscalationPolicy{Escalation: *withEscalation()}
	for step, want := range map[int]time.Duration{0: time.Minute, 1: 100 * time.Minute, 2: 24 * time.Hour, 300: 24 * time.Hour, 1 << 40: 24 * time.Hour} {
		if got := l.BlockAfter(step); got != want {
			t.Errorf("BlockAfter(%d) = %s, want %s", step, got, want)
		}
	}
	if l.Levels() != 3 {
		t.Errorf("Levels() = %d, want 3", l.Levels())
	}
}

func withEscalation() *rules.Escalation {
	return &rules.Escalation{Threshold: 10, Window: time.Minute, Duration: time.Minute, Factor: 100, MaxDuration: 24 * time.Hour, DecayAfter: time.Hour}
}

func TestRowThatMakesTheWriterPanicIsDroppedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &memorySink{seen: map[string]bool{}, fail: func(b *offences.Batch) error {
			for _, o := range b.Offences {
				if o.Key == "k:poison" {
					panic("a bug of the driver")
				}
			}
			return nil
		}}
		r, f := testFlusher(s)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { f.Run(ctx) })
		for _, k := range []string{"k:a", "k:poison", "k:b"} {
			r.Record(limited(key(t, k), time.Now(), 1))
		}
		time.Sleep(3 * FlushInterval)
		r.Record(limited(key(t, "k:later"), time.Now(), 1))
		time.Sleep(3 * FlushInterval)
		cancel()
		running.Wait()
		if stats := f.Stats(); s.count != 3 || stats.Poison != 1 || stats.Waiting != 0 {
			t.Errorf("%d offences of 3 were written; %+v", s.count, stats)
		}
	})
}
