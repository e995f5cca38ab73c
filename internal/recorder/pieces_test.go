package recorder

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/offences"
)

// hangingSink is a memorySink whose writer hangs until the context ends, like a database that
// waits for a lock or is too slow.
type hangingSink struct {
	*memorySink
	hangs func(*offences.Batch) bool
	// afterwards makes the batch be written although its answer is lost.
	afterwards bool
}

func (s *hangingSink) Flush(ctx context.Context, b *offences.Batch, e offences.Evaluation) ([]offences.EscalationEvent, error) {
	if !s.hangs(b) {
		return s.memorySink.Flush(ctx, b, e)
	}
	<-ctx.Done()
	if s.afterwards {
		if _, err := s.memorySink.Flush(ctx, b, e); err != nil {
			return nil, err
		}
	}
	return nil, fault.New(fault.Unavailable, "The database did not answer in time.")
}

func (s *hangingSink) counted() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// running runs a flusher until stop is called.
func running(t *testing.T, f *Flusher) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { f.Run(ctx) })
	return func() { cancel(); run.Wait() }
}

func TestBatchTooLargeToWriteInTimeIsHalved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &hangingSink{memorySink: &memorySink{seen: map[string]bool{}}, hangs: func(b *offences.Batch) bool { return len(b.Offences) > 100 }}
		r, f := testFlusher(s)
		stop := running(t, f)
		for i := range 1500 {
			r.Record(limited(key(t, "k:"+strconv.Itoa(i)), time.Now(), 1))
		}
		time.Sleep(5 * time.Minute)
		stop()
		if stats := f.Stats(); s.counted() != 1500 || stats.Waiting != 0 || stats.Slow != 0 || stats.Poison != 0 {
			t.Errorf("%d offences of 1500 were written; %+v", s.counted(), stats)
		}
	})
}

func TestBatchThatIsNeverWrittenDelaysNoOtherRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stuck atomic.Bool
		stuck.Store(true)
		s := &hangingSink{memorySink: &memorySink{seen: map[string]bool{}}}
		s.hangs = func(b *offences.Batch) bool {
			for _, o := range b.Offences {
				if o.Key == "k:locked" && stuck.Load() {
					return true
				}
			}
			return false
		}
		r, f := testFlusher(s)
		stop := running(t, f)
		for i := range 63 {
			r.Record(limited(key(t, "k:"+strconv.Itoa(i)), time.Now(), 1))
		}
		r.Record(limited(key(t, "k:locked"), time.Now(), 1))
		time.Sleep(pieceTimeout + 2*FlushInterval)
		// Later offences do not wait at all, and those in the same piece are written as it is
		// halved.
		r.Record(limited(key(t, "k:later"), time.Now(), 1))
		written := s.counted()
		time.Sleep(2 * FlushInterval)
		if got := s.counted(); got <= written {
			t.Errorf("%d offences are written after a later one was recorded, and %d before; want more", got, written)
		}
		time.Sleep(2 * time.Minute)
		if got := s.counted(); got != 64 {
			t.Errorf("%d offences are written of the 64 that do not hang", got)
		}
		if stats := f.Stats(); stats.Slow == 0 || stats.Failing != nil {
			t.Errorf("the stats do not count the slow rows: %+v", stats)
		}
		stuck.Store(false)
		time.Sleep(5 * time.Minute)
		stop()
		if stats := f.Stats(); s.counted() != 65 || stats.Waiting != 0 || stats.Slow != 0 {
			t.Errorf("%d offences of 65; %+v", s.counted(), stats)
		}
	})
}

func TestBatchThatTimedOutButWasWrittenIsNotAddedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &hangingSink{memorySink: &memorySink{seen: map[string]bool{}}, hangs: func(*offences.Batch) bool { return true }, afterwards: true}
		r, f := testFlusher(s)
		stop := running(t, f)
		for i := range 100 {
			r.Record(limited(key(t, "k:"+strconv.Itoa(i)), time.Now(), 1))
		}
		time.Sleep(5 * time.Minute)
		stop()
		if stats := f.Stats(); s.counted() != 100 || stats.Waiting != 0 {
			t.Errorf("%d offences of 100; %+v", s.counted(), stats)
		}
	})
}
