package events

import (
	"math"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/supervise"
)

// queue holds the undelivered events of all listeners with equal filters. It is a linked list,
// of which each listener keeps the last event that it took: an event is selected and queued once
// for all of them, and stays in memory until the slowest has taken it.
type queue struct {
	filter    Filter
	listeners map[*Listener]struct{}
	newest    *queued
	count     uint64 // events so far
	woken     uint64 // count when the listeners were last woken
	// full is the count from which a listener may have so many undelivered events that no more
	// are queued for it.
	full uint64
}

// queued is an event in a queue. Events are numbered from 1.
type queued struct {
	event  *Event
	number uint64
	next   *queued
}

// queueOf returns the queue for a filter. The caller holds mu.
func (h *Hub) queueOf(f *Filter) *queue {
	for _, q := range h.queues {
		if q.filter.equals(f) {
			return q
		}
	}
	q := &queue{filter: *f, listeners: map[*Listener]struct{}{}, newest: new(queued), full: math.MaxUint64}
	h.queues = append(h.queues, q)
	return q
}

func (f *Filter) equals(other *Filter) bool {
	return slices.Equal(f.Kinds, other.Kinds) && slices.Equal(f.Outcomes, other.Outcomes) && f.Policy == other.Policy && f.Pattern == other.Pattern &&
		slices.Equal(f.Path.Texts(conditions.Path), other.Path.Texts(conditions.Path))
}

// add adds a listener, which receives the events after this one. The caller holds mu.
func (q *queue) add(l *Listener, limit int) {
	l.queue, l.taken = q, q.newest
	q.listeners[l] = struct{}{}
	q.full = min(q.full, q.count+uint64(limit)) //nolint:gosec // at least 1
}

// push adds an event. It ends the listeners that have limit undelivered events before. The
// caller holds mu.
func (h *Hub) push(q *queue, e *Event) {
	if limit := uint64(h.o.Queue); q.count >= q.full { //nolint:gosec // at least 1
		q.full = math.MaxUint64
		for l := range q.listeners {
			if full := l.taken.number + limit; full > q.count {
				q.full = min(q.full, full)
			} else {
				h.drop(l, true)
			}
		}
	}
	q.count++
	added := &queued{event: e, number: q.count}
	q.newest.next = added
	q.newest = added
}

// MaxTaken bounds the events that Take returns at once.
const MaxTaken = 16

// Take returns the next undelivered events. If it returns MaxTaken of them, there may be
// more. open is false if no events follow, since the listener was stopped or dropped, or the
// hub is closed. The events are shared and must not be changed. A caller that waits for Woken
// before it takes receives several events at once if there are many listeners.
func (l *Listener) Take() (taken []*Event, open bool) {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	for len(taken) < MaxTaken && l.taken != nil && l.taken.next != nil && l.taken != l.last {
		l.taken = l.taken.next
		taken = append(taken, l.taken.event)
	}
	return taken, l.last == nil || l.taken != l.last
}

// Woken returns a channel that receives after events were queued, and after the end of the
// listener.
func (l *Listener) Woken() <-chan struct{} { return l.woken }

func (l *Listener) wake() {
	select {
	case l.woken <- struct{}{}:
	default: // it has not yet reacted to the last one
	}
}

// end leaves the listener the events that are queued for it, and not those after them. The
// caller holds mu.
func (l *Listener) end() {
	// A copy of the end of the list: later events would stay in memory for it.
	first := &queued{}
	last := first
	for at := l.taken.next; at != nil; at = at.next {
		last.next = &queued{event: at.event}
		last = last.next
	}
	l.taken, l.last = first, last
	l.wake()
}

// How listeners are woken. If all were woken by each event, every check that comes next would
// wait until hundreds of them have written to their connections. Benchmark: BenchmarkEventStreams
// in package api.
const (
	wakeAtOnce = 8                     // listeners
	wakeWithin = 64 * time.Millisecond // for the others, if the processor is free
	wakePause  = time.Millisecond
)

// wakeListeners wakes the listeners with new events until there are none, a few at a time. A
// listener that is still busy with earlier events costs nothing.
func (h *Hub) wakeListeners() {
	var due []*Listener
	for {
		if due = h.takeDue(due[:0]); len(due) == 0 {
			return
		}
		began := time.Now()
		for woken := 0; ; time.Sleep(wakePause) {
			share := min(1, float64(time.Since(began))/float64(wakeWithin))
			until := min(len(due), wakeAtOnce+int(share*float64(len(due))))
			for ; woken < until; woken++ {
				due[woken].wake()
			}
			if woken == len(due) {
				break
			}
		}
		clear(due)
	}
}

// takeDue appends the listeners to wake to due. If there are none, the caller ends.
func (h *Hub) takeDue(due []*Listener) []*Listener {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, q := range h.queues {
		if q.woken == q.count {
			continue
		}
		q.woken = q.count
		for l := range q.listeners {
			if len(l.woken) == 0 {
				due = append(due, l)
			}
		}
	}
	h.isWaking = len(due) > 0
	return due
}

// startWaking makes wakeListeners run. The caller holds mu.
func (h *Hub) startWaking() {
	if h.isWaking {
		return
	}
	h.isWaking = true
	go supervise.Do("live events", h.wakeListeners)
}
