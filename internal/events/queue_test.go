package events_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/internal/events"
	"github.com/stint-dev/stint/internal/gate"
)

// Listeners share their events, so that an event is encoded once for all of them.
func TestListenersShareEvents(t *testing.T) {
	h := events.New(events.Options{})
	all, again, refused := h.Listen(events.Filter{}, ""), h.Listen(events.Filter{}, ""), h.Listen(events.Filter{Outcomes: []gate.Outcome{gate.Limited}}, "")
	h.Record(decided(t, "token:a", gate.Limited))
	first, _ := all.Take()
	for _, l := range []*events.Listener{again, refused} {
		if taken, _ := l.Take(); len(taken) != 1 || taken[0] != first[0] {
			t.Errorf("got %v, want the event that another listener has: %v", taken, first)
		}
	}
}

// The listeners of an event are woken a few at a time: a check that comes next waits for few of
// them, and a listener that is busy is left alone.
func TestListenersAreWokenFewAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := events.New(events.Options{})
		listeners := make([]*events.Listener, 1000)
		for i := range listeners {
			listeners[i] = h.Listen(events.Filter{}, "")
		}
		woken := func(take bool) (n int) {
			synctest.Wait()
			for _, l := range listeners {
				select {
				case <-l.Woken():
					n++
					if take {
						l.Take()
					}
				default:
				}
			}
			return n
		}
		h.Record(decided(t, "token:a", gate.Allowed))
		if n := woken(true); n == 0 || n > 8 {
			t.Errorf("%d listeners are woken at once, want at most 8", n)
		}
		// More events come until the others have been woken; each listener takes them together.
		h.Record(decided(t, "token:b", gate.Allowed))
		time.Sleep(200 * time.Millisecond)
		if n := woken(false); n != len(listeners) {
			t.Errorf("%d listeners are woken in the end, want all", n)
		}
		for i, l := range listeners {
			if taken, _ := l.Take(); len(taken) == 0 || name(taken[len(taken)-1]) != "token:b" {
				t.Fatalf("listener %d has %d events", i, len(taken))
			}
		}
		time.Sleep(time.Second)
		if n := woken(false); n != 0 {
			t.Errorf("%d listeners are woken without an event", n)
		}
	})
}

// Each listener receives the events that its filter selects, in their order and without gaps,
// while others come and go, and one that is too slow receives as many as its queue holds.
func TestConcurrentListenersReceiveEventsInOrder(t *testing.T) {
	const count, queue = 2000, 64
	h := events.New(events.Options{Queue: queue})
	publish := func(i int) {
		h.Publish(events.Event{Kind: events.Decision, Outcome: []gate.Outcome{gate.Allowed, gate.Limited}[i%2], Key: key(t, fmt.Sprintf("token:%d", i))})
	}
	filters := []struct {
		step   uint64
		filter events.Filter
	}{{1, events.Filter{}}, {2, events.Filter{Outcomes: []gate.Outcome{gate.Limited}}}, {1, events.Filter{Pattern: pattern(t, "token:*")}}}
	follow := func(l *events.Listener, step uint64, stopAfter int) {
		defer l.Stop()
		var last uint64
		for n := 0; n < stopAfter; {
			<-l.Woken()
			for more := true; more; {
				taken, open := l.Take()
				for _, e := range taken {
					if last != 0 && e.ID != last+step {
						t.Errorf("event %d follows %d, want %d", e.ID, last, last+step)
					}
					last = e.ID
				}
				if n += len(taken); !open {
					if _, slow := l.Farewell(); !slow && last != 0 && last+step <= count {
						t.Errorf("the last event is %d of %d", last, count)
					}
					return
				}
				more = len(taken) == events.MaxTaken
			}
		}
	}
	slow := h.Listen(events.Filter{}, "")
	var running sync.WaitGroup
	for i := range 30 {
		f := filters[i%len(filters)]
		l := h.Listen(f.filter, "")
		running.Go(func() { follow(l, f.step, count+1) })
	}
	var isOver atomic.Bool
	running.Go(func() { // listeners that come and go
		for i := 0; !isOver.Load(); i++ {
			f := filters[i%len(filters)]
			follow(h.Listen(f.filter, ""), f.step, 1)
		}
	})
	for i := range count {
		publish(i)
		if i%16 == 0 {
			time.Sleep(time.Millisecond) // about as many as come to a hub
		}
	}
	isOver.Store(true)
	h.Close()
	running.Wait()
	if got := received(slow); len(strings.Fields(got)) != queue+1 || !strings.HasSuffix(got, " end") {
		t.Errorf("the slow listener received %q, want %d events and the end", got, queue)
	}
	if _, said := slow.Farewell(); !said {
		t.Error("the slow listener has no notice why it ended")
	}
}

// discard takes the events of a listener until its end.
func discard(l *events.Listener) {
	for range l.Woken() {
		for more := true; more; {
			taken, open := l.Take()
			if !open {
				return
			}
			more = len(taken) == events.MaxTaken
		}
	}
}
