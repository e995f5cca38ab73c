package redislog

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/internal/timestamplog"
)

// transport is a fake Redis: it records the calls of a batcher and answers each when the test
// allows it.
type transport struct {
	calls  chan int // the sizes of the calls
	answer chan error
}

func newBatcher() (*batcher, *transport) {
	tr := &transport{calls: make(chan int, 1000), answer: make(chan error)}
	return &batcher{timeout: time.Second, send: tr.send}, tr
}

func (tr *transport) send(ctx context.Context, items []*item, _ time.Time) error {
	tr.calls <- len(items)
	select {
	case err := <-tr.answer:
		for _, it := range items {
			it.result = timestamplog.Result{Allowed: true}
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sizes returns the sizes of the calls since the last call of sizes.
func (tr *transport) sizes() []int {
	var all []int
	for {
		select {
		case n := <-tr.calls:
			all = append(all, n)
		default:
			return all
		}
	}
}

// decide sends n requests through l and returns the channel that receives their error.
func decide(ctx context.Context, l *batcher, n int) <-chan error {
	done := make(chan error, 1)
	g := new(groups).get(n)
	l.submit(ctx, g)
	go func() {
		err := g.wait(ctx)
		if err == nil {
			err = g.answer(n-1, nil).Err
		}
		g.release(err)
		done <- err
	}()
	return done
}

// busy sends single requests until l has as many calls in flight as possible.
func busy(t *testing.T, l *batcher, tr *transport) (done []<-chan error) {
	t.Helper()
	for range maxInFlight {
		done = append(done, decide(t.Context(), l, 1))
		wantSizes(t, tr, 1)
	}
	return done
}

func wantSizes(t *testing.T, tr *transport, want ...int) {
	t.Helper()
	synctest.Wait()
	got := tr.sizes()
	if len(got) != len(want) {
		t.Fatalf("the calls had %v requests, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("the calls had %v requests, want %v", got, want)
		}
	}
}

func TestBatcherSendsAtOnceWhenIdleAndBatchesDuringCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, tr := newBatcher()
		done := busy(t, l, tr)
		for range 10 {
			done = append(done, decide(t.Context(), l, 1))
		}
		wantSizes(t, tr)
		tr.answer <- nil
		wantSizes(t, tr, 10)
		tr.answer <- nil
		tr.answer <- nil
		for _, d := range done {
			if err := <-d; err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if l.inFlight != 0 || len(l.queue) != 0 {
			t.Errorf("%d calls and %d groups are left", l.inFlight, len(l.queue))
		}
	})
}

func TestBatcherSendsASecondCallOnlyIfTheFirstIsSmallSlowOrABatchIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, tr := newBatcher()
		done := []<-chan error{decide(t.Context(), l, smallBatch)}
		wantSizes(t, tr, smallBatch)
		done = append(done, decide(t.Context(), l, 1))
		wantSizes(t, tr)
		time.Sleep(2 * slowCall)
		done = append(done, decide(t.Context(), l, 1))
		wantSizes(t, tr, 2)
		tr.answer <- nil
		tr.answer <- nil
		wantSizes(t, tr)
		done = append(done, decide(t.Context(), l, smallBatch))
		wantSizes(t, tr, smallBatch)
		done = append(done, decide(t.Context(), l, maxBatch-1))
		wantSizes(t, tr)
		done = append(done, decide(t.Context(), l, 1))
		wantSizes(t, tr, maxBatch)
		tr.answer <- nil
		tr.answer <- nil
		for _, d := range done {
			if err := <-d; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestBatcherBoundsCallsAndKeepsTheOrderOfALargeGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, tr := newBatcher()
		done := busy(t, l, tr)
		done = append(done, decide(t.Context(), l, 100), decide(t.Context(), l, 300))
		for range 6 { // the two, the small group, and the large group in three calls
			tr.answer <- nil
		}
		synctest.Wait()
		sizes := tr.sizes()
		// The other sender sends the small group concurrently with the large one.
		small := slices.Index(sizes, 100)
		if large := []int{maxBatch, maxBatch, 300 - 2*maxBatch}; small < 0 || !slices.Equal(slices.Delete(slices.Clone(sizes), small, small+1), large) {
			t.Errorf("the calls had %v requests, want 100 and %v", sizes, large)
		}
		for _, d := range done {
			if err := <-d; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestBatcherDoesNotSendACancelledRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, tr := newBatcher()
		busy(t, l, tr)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		gone := decide(ctx, l, 5)
		if err := <-gone; !errors.Is(err, timestamplog.ErrUnreachable) {
			t.Errorf("the error is %v, want one that matches ErrUnreachable", err)
		}
		stays := decide(t.Context(), l, 3)
		tr.answer <- nil
		wantSizes(t, tr, 3)
		tr.answer <- nil
		tr.answer <- nil
		if err := <-stays; err != nil {
			t.Error(err)
		}
	})
}

func TestHungCallEndsWhenItsLastCallerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, tr := newBatcher()
		start := time.Now()
		for _, timeout := range []time.Duration{50, 100} {
			ctx, cancel := context.WithTimeout(t.Context(), timeout*time.Millisecond)
			defer cancel()
			err := <-decide(ctx, l, 1)
			if !errors.Is(err, timestamplog.ErrUnreachable) {
				t.Errorf("the error is %v, want one that matches ErrUnreachable", err)
			}
		}
		wantSizes(t, tr, 1, 1)
		if waited := time.Since(start); waited != 150*time.Millisecond {
			t.Errorf("the callers waited %s, want 150ms", waited)
		}
		// No call is in flight, so a new request is sent at once.
		again := decide(t.Context(), l, 1)
		wantSizes(t, tr, 1)
		tr.answer <- nil
		if err := <-again; err != nil {
			t.Error(err)
		}
	})
}

func TestCallerWithoutADeadlineWaitsForTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newBatcher()
		start := time.Now()
		if err := <-decide(t.Context(), l, 1); !errors.Is(err, timestamplog.ErrUnreachable) {
			t.Errorf("the error is %v, want one that matches ErrUnreachable", err)
		}
		if waited := time.Since(start); waited != l.timeout {
			t.Errorf("the caller waited %s, want %s", waited, l.timeout)
		}
	})
}

func TestBatcherSendsNoMoreOfAGroupAfterAFailedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, tr := newBatcher()
		large := decide(t.Context(), l, 300)
		wantSizes(t, tr, maxBatch)
		tr.answer <- errors.New("connection reset")
		if err := <-large; !errors.Is(err, timestamplog.ErrUnreachable) {
			t.Errorf("the error is %v, want one that matches ErrUnreachable", err)
		}
		wantSizes(t, tr)
	})
}

// If a caller gives up after its requests were taken from the queue and before they are sent,
// they must not be charged under the deadline of the other requests.
func TestBatcherDropsRequestsCancelledWhileTheCallIsBuilt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := newBatcher()
		gone, stays := new(groups).get(1), new(groups).get(2)
		gone.until, stays.until = time.Now().Add(time.Millisecond), time.Now().Add(time.Minute)
		time.Sleep(time.Millisecond)
		items, until := b.stillWaiting(nil, []*group{gone, stays}, false)
		if len(items) != 2 || items[0] != &stays.items[0] || !until.Equal(time.Now().Add(b.timeout)) {
			t.Errorf("%d items are sent until %s", len(items), until)
		}
		if err := gone.answer(0, nil).Err; !errors.Is(err, timestamplog.ErrUnreachable) {
			t.Errorf("the caller that gave up is answered with %v", err)
		}
	})
}

// A batcher with judge does not wait for calls whose callers have all given up, and counts the
// requests that were never sent because all calls were in flight.
func TestStalledCallsDoNotDelayLaterCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, tr := newBatcher()
		var judged, dropped atomic.Int64 // used by several senders
		l.judge = func([]*item, error) { judged.Add(1) }
		l.dropped = func(requests int) { dropped.Add(int64(requests)) }
		hurry := func(n int) <-chan error {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			t.Cleanup(cancel)
			return decide(ctx, l, n)
		}
		var gone []<-chan error
		for range maxInFlight {
			gone = append(gone, hurry(1))
			wantSizes(t, tr, 1)
		}
		gone = append(gone, hurry(3))
		time.Sleep(11 * time.Millisecond)
		wantSizes(t, tr)
		later := hurry(1)
		wantSizes(t, tr, 1)
		if dropped.Load() != 3 {
			t.Errorf("%d requests were dropped, want 3", dropped.Load())
		}
		tr.answer <- nil // for any of the three calls
		tr.answer <- nil
		tr.answer <- nil
		if err := <-later; err != nil {
			t.Errorf("a later caller: %v", err)
		}
		for _, d := range gone {
			if <-d == nil {
				t.Error("a caller whose deadline passed got an answer")
			}
		}
		synctest.Wait()
		if l.inFlight != 0 || len(l.awaited) != 0 || judged.Load() != 3 {
			t.Errorf("%d calls are in flight, %d are awaited, %d were judged", l.inFlight, len(l.awaited), judged.Load())
		}
		// If the primary itself stalls, no more than this number of calls are in flight.
		for range 10 {
			hurry(1)
			time.Sleep(11 * time.Millisecond)
		}
		synctest.Wait()
		if l.inFlight != maxInFlight+maxStalled {
			t.Errorf("%d calls are in flight", l.inFlight)
		}
		for range maxInFlight + maxStalled {
			tr.answer <- nil
		}
	})
}

func TestRequestsThatWereNeverSentCountAsUnansweredAndNotAsFailures(t *testing.T) {
	var b breaker
	b.leave(5)
	if b.open.Load() {
		t.Fatal("an outage began")
	}
	for range failureThreshold {
		b.failed("a", errTorn, 1, time.Now())
	}
	b.leave(2)
	if outage, isOpen := b.state(); !isOpen || outage.Requests != 7+failureThreshold {
		t.Errorf("the outage is %+v", outage)
	}
	b.succeeded()
	b.leave(4)
	b.succeeded()
	for range failureThreshold {
		b.failed("a", errTorn, 1, time.Now())
	}
	if outage, _ := b.state(); outage.Requests != failureThreshold {
		t.Errorf("requests before the last success count: %+v", outage)
	}
}
