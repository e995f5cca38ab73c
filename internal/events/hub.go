package events

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/keys"
)

// Limits of a hub. Zero fields of Options mean these values.
const (
	DefaultRing      = 4096 // events kept for listeners that reconnect
	DefaultQueue     = 256  // undelivered events per listener
	DefaultPerSecond = 200  // published decisions per second, for allowed and refused ones each, and changes of holds
	DefaultHeartbeat = 15 * time.Second
	// Linger is how long decisions are kept after the last listener has disconnected, so that a
	// listener that reconnects misses nothing.
	Linger = time.Minute
)

// Options configure a Hub. The zero value is usable.
type Options struct {
	Now func() time.Time // nil means time.Now
	// Parser returns the present parser of keys; nil uses the default settings.
	Parser    func() keys.Parser
	Ring      int
	Queue     int
	PerSecond int
	// OmitPaths leaves the paths of requests out of the events.
	OmitPaths bool
	// Heartbeat is how often an idle stream sends a sign of life.
	Heartbeat time.Duration
}

// Hub distributes events to listeners. It is safe for concurrent use.
type Hub struct {
	o Options
	// run distinguishes this hub's ids from those of another run or node.
	run string
	// until is when decisions are no longer needed, in Unix nanoseconds. A check reads it with
	// one atomic load if nobody listens.
	until atomic.Int64

	allowed, refused, holds budget

	mu       sync.Mutex
	last     uint64
	ring     []Event  // the newest events, at most o.Ring; see kept
	queues   []*queue // one for each distinct filter of the listeners
	isWaking bool     // wakeListeners runs
	// decisions is the number of listeners whose filter may select decisions.
	decisions int
	closed    bool
}

// New returns a hub without listeners.
func New(o Options) *Hub {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Parser == nil {
		o.Parser = func() keys.Parser { return keys.Parser{} }
	}
	for _, d := range []struct{ value, standard *int }{
		{&o.Ring, new(DefaultRing)}, {&o.Queue, new(DefaultQueue)}, {&o.PerSecond, new(DefaultPerSecond)},
	} {
		if *d.value <= 0 {
			*d.value = *d.standard
		}
	}
	if o.Heartbeat <= 0 {
		o.Heartbeat = DefaultHeartbeat
	}
	h := &Hub{o: o, run: strconv.FormatUint(rand.Uint64(), 36)}
	h.allowed.what, h.refused.what, h.holds.what = "allowed checks", "refused checks", "changes of holds"
	return h
}

// Heartbeat returns how often an idle stream sends a sign of life.
func (h *Hub) Heartbeat() time.Duration { return h.o.Heartbeat }

// Token returns the text with which a listener that reconnects continues after e.
func (h *Hub) Token(e *Event) string { return h.run + "-" + strconv.FormatUint(e.ID, 10) }

// Run identifies this run of this node. Every hub counts its ids from 1.
func (h *Hub) Run() string { return h.run }

// IDOf returns the id of the event that a Token names, 0 if it is an event of another run or
// node. It returns an error if the text is not a Token.
func (h *Hub) IDOf(token string) (uint64, error) {
	run, number, _ := strings.Cut(token, "-")
	id, err := strconv.ParseUint(number, 10, 64)
	if err != nil || run != h.run {
		return 0, err
	}
	return id, nil
}

// Publish publishes an event. It sets ID, and At if it is zero. It never waits for a listener:
// it drops a listener whose queue is full.
func (h *Hub) Publish(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.publish(e)
}

func (h *Hub) publish(e Event) {
	if e.At.IsZero() {
		e.At = h.o.Now()
	}
	h.last++
	e.ID = h.last
	if len(h.ring) < h.o.Ring {
		h.ring = append(h.ring, e)
	} else {
		*h.kept(e.ID) = e
	}
	// All listeners share one copy, so that a queue uses only the memory of its events.
	var shared *Event
	for _, q := range slices.Backward(h.queues) { // push may remove q
		if !q.filter.Selects(&e) {
			continue
		}
		if shared == nil {
			shared = new(e)
		}
		h.push(q, shared)
	}
	if shared != nil {
		h.startWaking()
	}
}

// kept returns the place of an event's id in the ring. The id must be one of the newest. The
// first event has the id 1.
func (h *Hub) kept(id uint64) *Event { return &h.ring[(id-1)%uint64(len(h.ring))] }

// drop ends a listener. The caller holds mu.
func (h *Hub) drop(l *Listener, slow bool) {
	if l.last != nil {
		return
	}
	l.slow.Store(slow)
	l.end()
	delete(l.queue.listeners, l)
	if len(l.queue.listeners) == 0 {
		h.queues = slices.DeleteFunc(h.queues, func(q *queue) bool { return q == l.queue })
	}
	l.queue = nil
	if !l.filter.mayBeOfCheck() {
		return
	}
	if h.decisions--; h.decisions == 0 {
		h.until.Store(h.o.Now().Add(Linger).UnixNano())
	}
}

// Close ends every listener before the node stops. Later listeners end immediately.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, q := range slices.Backward(h.queues) { // drop may remove q
		for l := range q.listeners {
			h.drop(l, false)
		}
	}
}

// Listener receives events. See Listen.
type Listener struct {
	hub    *Hub
	filter Filter
	woken  chan struct{} // see Woken
	slow   atomic.Bool
	queue  *queue  // nil after the end
	taken  *queued // the last event that Take returned
	last   *queued // the last event to return, nil before the end
	// next to until are the ids of events that the listener still has to read as missed.
	// elsewhere means that missed events are unknown. Missed reads the events from the ring: a
	// copy for each listener that does not read would take megabytes.
	next, until uint64
	elsewhere   bool
}

// Listen returns a listener. after is a Token of an earlier event after which the listener
// misses nothing, "" for none. Call Missed first, then Take after each Woken, and Stop in the
// end.
func (h *Hub) Listen(f Filter, after string) *Listener {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := &Listener{hub: h, filter: f, woken: make(chan struct{}, 1), next: 1}
	if h.closed {
		l.taken = new(queued)
		l.end()
		return l
	}
	h.queueOf(&f).add(l, h.o.Queue)
	if f.mayBeOfCheck() {
		h.decisions++
		h.until.Store(math.MaxInt64)
	}
	if after == "" {
		return l
	}
	run, number, _ := strings.Cut(after, "-")
	seen, err := strconv.ParseUint(number, 10, 64)
	if l.elsewhere = run != h.run || err != nil || seen > h.last; !l.elsewhere {
		l.next, l.until = seen+1, h.last
	}
	return l
}

// missedAtOnce bounds the events that Missed returns at a time.
const missedAtOnce = 16

// Missed returns the next events from before the listener was created, none if there are no
// more. If some are no longer kept, it returns a notice in their place.
func (l *Listener) Missed() []Event {
	h := l.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.elsewhere {
		l.elsewhere = false
		// It is unknown how many events there were between another run and this one.
		return []Event{h.notice("Events may be missing: this node was restarted since, or is another one.", 0)}
	}
	var missed []Event
	if oldest := h.last - uint64(len(h.ring)) + 1; l.next < oldest && l.next <= l.until {
		lost := min(oldest, l.until+1) - l.next
		missed = append(missed, h.notice("Events are missing: more happened than is kept for those who come back.", int64(lost))) //nolint:gosec // a number of events
		l.next += lost
	}
	for ; l.next <= l.until && len(missed) < missedAtOnce; l.next++ {
		if e := h.kept(l.next); l.filter.Selects(e) {
			missed = append(missed, *e)
		}
	}
	return missed
}

// Newest returns up to limit of the newest kept events that f selects, the newest first. It
// makes the hub keep decisions for Linger, so that the next call finds what has happened since.
func (h *Hub) Newest(f Filter, limit int) []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.decisions == 0 && !h.closed {
		h.until.Store(h.o.Now().Add(Linger).UnixNano())
	}
	var found []Event
	for id := h.last; id > 0 && h.last-id < uint64(len(h.ring)) && len(found) < limit; id-- {
		if e := h.kept(id); f.Selects(e) {
			found = append(found, *e)
		}
	}
	return found
}

func (h *Hub) notice(text string, skipped int64) Event {
	return Event{Kind: Notice, At: h.o.Now(), Text: text, Skipped: skipped}
}

// Farewell returns, after Take has returned that nothing follows, the notice with the reason,
// false if there is none.
func (l *Listener) Farewell() (Event, bool) {
	if !l.slow.Load() {
		return Event{}, false
	}
	return l.hub.notice("This stream was ended because it was read too slowly; connect again to go on.", 0), true
}

// Stop ends the listener. It may be called more than once.
func (l *Listener) Stop() {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	l.hub.drop(l, false)
}
