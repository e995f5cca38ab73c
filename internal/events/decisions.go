package events

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
)

var _ gate.Recorder = (*Hub)(nil)

// Record implements gate.Recorder: it shows the first decisions of each second,
// of allowed and of refused ones apart, and says how many it did not show.
// Where nobody listens it does nothing.
func (h *Hub) Record(d *gate.Decision) {
	now := d.At.UnixNano()
	if now > h.until.Load() {
		return
	}
	b := &h.refused
	if d.Outcome == gate.Allowed && (d.Shadow == nil || d.Shadow.Outcome == gate.Allowed) {
		b = &h.allowed
	}
	shown, skipped, over := b.take(now/int64(time.Second), int64(h.o.PerSecond))
	if over > 0 {
		h.Publish(Event{
			Kind: Notice, At: d.At, Skipped: over,
			Text: fmt.Sprintf("Decisions are sampled: within a second, %d of %d %s were shown.", skipped, skipped+over, b.what),
		})
	}
	if shown {
		h.Publish(h.eventOf(d))
	}
}

// budget counts the decisions of a second.
type budget struct {
	what string // is counted, for people
	// second is the second that is counted, and count how many it has had.
	second, count atomic.Int64
}

// take counts a decision and reports whether it is shown. The first decision of
// a new second gets, where the second before went over its most, how many were
// shown of it and how many were not. A decision that comes late counts towards
// the newest second.
func (b *budget) take(second, most int64) (shown bool, before, over int64) {
	if last := b.second.Load(); second > last && b.second.CompareAndSwap(last, second) {
		if count := b.count.Swap(0); count > most {
			before, over = most, count-most
		}
	}
	return b.count.Add(1) <= most, before, over
}

// eventOf copies what a decision says. Its texts may lie in buffers that are
// used again.
func (h *Hub) eventOf(d *gate.Decision) Event {
	e := Event{
		Kind: Decision, At: d.At, Key: h.copyOf(d.Check.Key), Outcome: d.Outcome, Refusal: d.ID, RetryAt: d.RetryAt,
		Source: strings.Clone(d.Check.Source), Degraded: d.Degraded,
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
