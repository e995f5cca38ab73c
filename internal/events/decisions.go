package events

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/supervise"
)

var _ gate.Recorder = (*Hub)(nil)

// Record implements gate.Recorder: it shows the first decisions of each second,
// of allowed and of refused ones apart, and says how many it did not show.
// Where nobody listens it does nothing.
func (h *Hub) Record(d *gate.Decision) {
	now := d.At.UnixNano()
	if now > h.until.Load() || d.IsAdditional && d.Reported == "" {
		return
	}
	b := &h.refused
	if d.Outcome == gate.Allowed && (d.Shadow == nil || d.Shadow.Outcome == gate.Allowed) {
		b = &h.allowed
	}
	second, most := now/int64(time.Second), int64(h.o.PerSecond)
	h.publishSkipped(b, b.begin(second), d.At)
	switch count := b.count.Add(1); {
	case count <= most:
		h.Publish(h.eventOf(d))
	case count == most+1: // the number left out is published also if nothing follows
		time.AfterFunc(settleAfter, func() {
			supervise.Do("live events", func() { h.publishSkipped(b, b.end(second), time.Time{}) })
		})
	}
}

// settleAfter is when a second that showed too few decisions is surely over.
const settleAfter = 1200 * time.Millisecond

// publishSkipped publishes how many of a second's decisions were not shown.
func (h *Hub) publishSkipped(b *budget, count int64, at time.Time) {
	most := int64(h.o.PerSecond)
	if count <= most {
		return
	}
	h.Publish(Event{
		Kind: Notice, At: at, Skipped: count - most,
		Text: fmt.Sprintf("Decisions are sampled: within a second, %d of %d %s were shown.", most, count, b.what),
	})
}

// budget counts the decisions of a second.
type budget struct {
	what string // is counted, for people
	// second is the second that is counted, and count how many it has had.
	second, count atomic.Int64
}

// begin begins a new second and returns how many decisions the one before had,
// 0 where second is no newer: a decision that comes late counts towards the
// newest second.
func (b *budget) begin(second int64) (before int64) {
	if last := b.second.Load(); second > last && b.second.CompareAndSwap(last, second) {
		return b.count.Swap(0)
	}
	return 0
}

// end ends a second if it is still the newest, and returns how many decisions
// it had.
func (b *budget) end(second int64) (count int64) {
	if b.second.CompareAndSwap(second, second+1) {
		return b.count.Swap(0)
	}
	return 0
}

// eventOf copies what a decision says. Its texts may lie in buffers that are
// used again.
func (h *Hub) eventOf(d *gate.Decision) Event {
	e := Event{
		Kind: Decision, At: d.At, Key: h.copyOf(d.Check.Key), Outcome: d.Outcome, Refusal: d.ID.String(), RetryAt: d.RetryAt,
		Source: strings.Clone(d.Check.Source), Degraded: d.Degraded, Reported: strings.Clone(d.Reported),
	}
	if d.Policy != nil {
		e.Policy = d.Policy.Name
	}
	if rule, refused := d.DecidingRule(); refused {
		e.Rule = rule.String()
	}
	if d.Block != nil && d.Exemption == nil {
		e.BlockID = d.Block.ID
	}
	if s := d.Shadow; s != nil {
		e.Shadow, e.ShadowPolicy = s.Outcome, s.Policy.Name
	}
	return e
}

// copyOf returns a key whose text is its own, with its full address.
func (h *Hub) copyOf(k keys.Key) keys.Key {
	parser := h.o.Parser()
	if network, is := k.Network(); is && network.IsSingleIP() {
		return parser.AddressKey(network.Addr())
	}
	copied, err := parser.Key(strings.Clone(k.String()))
	if err != nil { // it was a key under the settings of a moment ago
		return keys.Key{}
	}
	return copied
}
