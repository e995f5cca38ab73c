package client_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/testnode"
)

func TestWaitMakesReservationsAWindowApart(t *testing.T) {
	c, key := connect(t), fresh("soon")
	var reservations []time.Time
	for range 1000 { // on a loaded machine not every call comes within 100 ms of the last
		d, err := c.Wait(t.Context(), client.Check{Key: key})
		if err != nil || !d.Allowed {
			t.Fatalf("got %+v, %v", d, err)
		}
		if d.Reservation != nil {
			reservations = append(reservations, d.Reservation.At)
		}
		if len(reservations) == 4 {
			break
		}
	}
	if len(reservations) < 4 {
		t.Fatalf("Wait made only %d reservations, want 4", len(reservations))
	}
	for i, at := range reservations[1:] {
		if apart := at.Sub(reservations[i]); apart < 100*time.Millisecond {
			t.Errorf("two reservations of 1/100ms are %v apart", apart)
		}
	}
}

func TestCheckMakesAReservationThatCancelEnds(t *testing.T) {
	c, key := connect(t), fresh("far")
	ask(t, c, client.Check{Key: key})
	if d := ask(t, c, client.Check{Key: key, MaxWait: time.Minute}); d.Allowed || d.Reservation != nil {
		t.Fatalf("Check with MaxWait of a minute: got %+v, want a refusal", d)
	}
	d := ask(t, c, client.Check{Key: key, MaxWait: client.MaxWait})
	if !d.Allowed || d.Reservation == nil || d.Reservation.Handle == "" || d.Delay <= 50*time.Minute || d.Delay > time.Hour {
		t.Fatalf("got %+v", d)
	}
	if room, err := c.Cancel(t.Context(), d.Reservation.Handle); err != nil || !room {
		t.Errorf("Cancel: got %v, %v, want true", room, err)
	}
	if room, err := c.Cancel(t.Context(), d.Reservation.Handle); err != nil || room {
		t.Errorf("Cancel again: got %v, %v, want false", room, err)
	}
	var problem *client.Problem
	if _, err := c.Cancel(t.Context(), "no/such reservation"); !errors.As(err, &problem) || problem.Status != 404 {
		t.Errorf("Cancel of an unknown handle: got %v, want status 404", err)
	}
	if d := ask(t, c, client.Check{Key: key, MaxWait: client.MaxWait}); !d.Allowed || d.Reservation == nil {
		t.Errorf("Check after Cancel: got %+v, want a reservation", d)
	}
}

func TestReservationIsMadeOnceAfterALostAnswer(t *testing.T) {
	w, key := lossy(t, first(1, cutAfter)), fresh("far")
	c := connect(t)
	ask(t, c, client.Check{Key: key})
	d := ask(t, connectTo(t, w.URL), client.Check{Key: key, MaxWait: client.MaxWait})
	if !d.Allowed || !d.Replayed || d.Reservation == nil || d.Reservation.Handle == "" || d.Delay <= 0 {
		t.Fatalf("got %+v", d)
	}
	if room, err := c.Cancel(t.Context(), d.Reservation.Handle); err != nil || !room {
		t.Errorf("Cancel: got %v, %v, want true", room, err)
	}
	if d := ask(t, c, client.Check{Key: key, MaxWait: client.MaxWait}); !d.Allowed {
		t.Errorf("after Cancel another reservation is in the log: %+v", d)
	}
}

func TestWaitRefusesAtOnceIfTheReservationIsTooLate(t *testing.T) {
	c, key := connect(t), fresh("far")
	ask(t, c, client.Check{Key: key})
	// With MaxWait of 40 minutes RetryAfter is 20 minutes, but the reservation would be in 60.
	for _, most := range []time.Duration{time.Second, 10 * time.Minute, 40 * time.Minute} {
		var refused *client.Refused
		d, err := c.Wait(t.Context(), client.Check{Key: key, MaxWait: most, Detail: client.DetailNone})
		if d != nil || !errors.As(err, &refused) || refused.Decision.Outcome != client.Limited {
			t.Errorf("Wait within %v: got %+v, %v, want a refusal", most, d, err)
		}
		refused = nil
		j, err := c.WaitAll(t.Context(), client.CombinedCheck{Keys: []client.CombinedKey{{Key: fresh("far")}, {Key: key}}, MaxWait: most})
		if j != nil || !errors.As(err, &refused) || refused.Decision.Key != key || refused.Combined.Outcome != client.Limited {
			t.Errorf("WaitAll within %v: got %+v, %v, want a refusal", most, j, err)
		}
	}
	var never *client.Refused
	if d, err := c.Wait(t.Context(), client.Check{Key: fresh("never")}); d != nil || !errors.As(err, &never) || never.Decision.RetryAfter != client.Never {
		t.Errorf("Wait under a rule that always refuses: got %+v, %v", d, err)
	}
	called := false
	err := c.Do(t.Context(), client.Check{Key: key, MaxWait: time.Minute}, func(context.Context) error { called = true; return nil })
	var refused *client.Refused
	if called || !errors.As(err, &refused) || refused.Decision.Outcome != client.Limited {
		t.Errorf("Do: called the function %v, got %v", called, err)
	}
	if _, err := c.Wait(t.Context(), client.Check{Key: key, Peek: true}); err == nil {
		t.Error("Wait of a peek: got no error")
	}
}

func TestDoReturnsWhatTheFunctionReturns(t *testing.T) {
	mine := errors.New("mine")
	if err := connect(t).Do(t.Context(), client.Check{Key: fresh("soon")}, func(context.Context) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("got %v", err)
	}
}

// wantReservable checks that a key of 1/1h, which was used once, has no reservation.
func wantReservable(t *testing.T, c *client.Client, key string) {
	t.Helper()
	d := ask(t, c, client.Check{Key: key, MaxWait: client.MaxWait})
	if !d.Allowed || d.Reservation == nil {
		t.Errorf("the reservation was not cancelled: a new one got %+v", d)
	}
}

func TestWaitCancelsTheReservationWhenTheContextEnds(t *testing.T) {
	c, key := connect(t), fresh("far")
	ask(t, c, client.Check{Key: key})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := c.Wait(ctx, client.Check{Key: key})
		ended <- err
	}()
	// While there is a reservation, another is refused within the longest wait.
	servers.Await(t, "the reservation is made", func() bool {
		d := ask(t, c, client.Check{Key: key, MaxWait: client.MaxWait, Peek: true})
		return !d.Allowed
	})
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	c.Close()
	wantReservable(t, c, key)
}

func TestWaitCancelsTheReservationIfTheContextEndsBeforeTheAnswer(t *testing.T) {
	key := fresh("far")
	ask(t, connect(t), client.Check{Key: key})
	ctx, cancel := context.WithCancel(t.Context())
	var ends atomic.Bool
	w := lossy(t, func(int64) fault {
		if ends.CompareAndSwap(false, true) {
			cancel() // once the check has been sent
		}
		return none
	})
	c := connectTo(t, w.URL)
	if d, err := c.Wait(ctx, client.Check{Key: key}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %+v, %v", d, err)
	}
	c.Close()
	if w.calls.Load() != 2 {
		t.Errorf("got %d calls, want one that reserves and one that cancels", w.calls.Load())
	}
	wantReservable(t, c, key)
}

func TestWaitWaitsForTheEndOfABlock(t *testing.T) {
	c, key := connect(t), fresh("soon")
	testnode.Shared().Do(t, "POST", "/v1/blocks", `{"pattern":"`+key+`","expires_in":"1s"}`, 201)
	if d, err := c.Wait(t.Context(), client.Check{Key: key}); err != nil || !d.Allowed {
		t.Errorf("got %+v, %v", d, err)
	}
}

// The reservation is a second further ahead than one check may reserve.
func TestWaitChecksAgainBeyondTheLongestReservation(t *testing.T) {
	for range 100 { // on a loaded machine the second may have passed before it waits
		w, key := lossy(t, first(0, none)), fresh("farther")
		c := connectTo(t, w.URL)
		ask(t, c, client.Check{Key: key})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := c.Wait(ctx, client.Check{Key: key})
			ended <- err
		}()
		servers.Await(t, "a reservation is made", func() bool {
			d := ask(t, connect(t), client.Check{Key: key, MaxWait: client.MaxWait, Peek: true})
			return !d.Allowed && d.RetryAfter > 10*time.Minute // it would come after that reservation
		})
		asked := w.calls.Load()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if asked == 3 {
			c.Close()
			return
		}
	}
	t.Error("Wait never checked a second time")
}

// The queue holds two: a client that finds it full checks again until there is space.
func TestWaitRetriesWhileTheQueueIsFull(t *testing.T) {
	c, key := connect(t), fresh("queue")
	var group sync.WaitGroup
	for range 6 {
		group.Go(func() {
			if d, err := c.Wait(t.Context(), client.Check{Key: key, MaxWait: time.Hour}); err != nil || !d.Allowed {
				t.Errorf("got %+v, %v", d, err)
			}
		})
	}
	group.Wait()
}

func TestCheckAllChargesAllKeysOrNone(t *testing.T) {
	c, one, other := connect(t), fresh("user"), fresh("user")
	both := client.CombinedCheck{Keys: []client.CombinedKey{{Key: one, Cost: 2}, {Key: other}}}
	j, err := c.CheckAll(t.Context(), both)
	if err != nil || !j.Allowed || len(j.Decisions) != 2 || j.Decisions[0].Key != one || !j.Decisions[1].Allowed {
		t.Fatalf("got %+v, %v", j, err)
	}
	j, err = c.CheckAll(t.Context(), both)
	if err != nil || j.Allowed || j.Outcome != client.Limited || j.RetryAfter <= 0 || j.Decisions[0].Allowed || !j.Decisions[1].Allowed {
		t.Fatalf("got %+v, %v", j, err)
	}
	if charged(t, one) != 2 || charged(t, other) != 1 {
		t.Errorf("the keys were charged %d and %d", charged(t, one), charged(t, other))
	}
	var problem *client.Problem
	if _, err := c.CheckAll(t.Context(), client.CombinedCheck{}); !errors.As(err, &problem) {
		t.Errorf("CheckAll without keys: got %v, want a problem", err)
	}
}

func TestCheckAllIsChargedOnceAfterALostAnswer(t *testing.T) {
	w, one, other := lossy(t, first(1, cutAfter)), fresh("user"), fresh("user")
	j, err := connectTo(t, w.URL).CheckAll(t.Context(), client.CombinedCheck{Keys: []client.CombinedKey{{Key: one}, {Key: other}}})
	if err != nil || !j.Allowed || !j.Replayed {
		t.Errorf("got %+v, %v", j, err)
	}
	if charged(t, one) != 1 || charged(t, other) != 1 {
		t.Errorf("the keys were charged %d and %d", charged(t, one), charged(t, other))
	}
}

func TestWaitAllWaitsForOneReservation(t *testing.T) {
	c, one, other := connect(t), fresh("soon"), fresh("soon")
	for range 3 {
		j, err := c.WaitAll(t.Context(), client.CombinedCheck{Keys: []client.CombinedKey{{Key: one}, {Key: other}}})
		if err != nil || !j.Allowed {
			t.Fatalf("got %+v, %v", j, err)
		}
	}
	if _, err := c.WaitAll(t.Context(), client.CombinedCheck{Keys: []client.CombinedKey{{Key: one}}, Peek: true}); err == nil {
		t.Error("WaitAll of a peek: got no error")
	}
}
