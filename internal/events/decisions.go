package events

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/supervise"
)

var _ gate.Recorder = (*Hub)(nil)

// Record implements gate.Recorder. It publishes the first decisions of each second, counting
// allowed and refused ones separately, and the number of decisions left out. Without listeners
// it does nothing.
func (h *Hub) Record(d *gate.Decision) {
	now := d.At.UnixNano()
	if now > h.until.Load() {
		return
	}
	h.recordHeld(d)
	if !IsEvent(d) {
		return
	}
	b := &h.refused
	if IsAllowed(d) {
		b = &h.allowed
	}
	h.publishWithin(b, d.At, func() Event { return Of(d, h.o.Parser(), h.o.OmitPaths) })
}

// publishWithin publishes an event of a time if it is one of the first of its second in b.
func (h *Hub) publishWithin(b *budget, at time.Time, event func() Event) {
	second, most := at.UnixNano()/int64(time.Second), int64(h.o.PerSecond)
	h.publishSkipped(b, b.begin(second), at)
	switch count := b.count.Add(1); {
	case count <= most:
		h.Publish(event())
	case count == most+1: // publish the number left out even if nothing follows
		time.AfterFunc(settleAfter, func() {
			supervise.Do("live events", func() { h.publishSkipped(b, b.end(second), time.Time{}) })
		})
	}
}

// settleAfter is the time after which all decisions of a second must have been recorded.
const settleAfter = 1200 * time.Millisecond

// publishSkipped publishes how many of a second's decisions were left out.
func (h *Hub) publishSkipped(b *budget, count int64, at time.Time) {
	most := int64(h.o.PerSecond)
	if count <= most {
		return
	}
	h.Publish(Event{
		Kind: Notice, At: at, Skipped: count - most,
		Text: fmt.Sprintf("Events are sampled: within a second, %s of %s %s were shown.", humanize.Comma(most), humanize.Comma(count), b.what),
	})
}

// budget counts the decisions of a second.
type budget struct {
	what string // name of what is counted, for people
	// second is the counted second, and count the number of its decisions.
	second, count atomic.Int64
}

// begin starts a new second and returns the count of the previous one. It returns 0 if second
// is not newer: a late decision counts towards the newest second.
func (b *budget) begin(second int64) (before int64) {
	if last := b.second.Load(); second > last && b.second.CompareAndSwap(last, second) {
		return b.count.Swap(0)
	}
	return 0
}

// end ends a second if it is still the newest, and returns its count.
func (b *budget) end(second int64) (count int64) {
	if b.second.CompareAndSwap(second, second+1) {
		return b.count.Swap(0)
	}
	return 0
}

// Of returns a decision as an event, without its ID. It copies texts, which may be in reused buffers.
func Of(d *gate.Decision, parser keys.Parser, omitPaths bool) Event {
	e := Event{
		Kind: Decision, At: d.At, Key: copyOf(d.Check.Key, parser), Outcome: d.Outcome, Refusal: d.ID.String(), RetryAt: d.RetryAt,
		Source: strings.Clone(d.Check.Source), Degraded: d.Degraded, Reported: strings.Clone(d.Reported),
	}
	e.Method = strings.Clone(d.Check.Request.Value(conditions.Method))
	if !omitPaths {
		e.Path = strings.Clone(d.Check.Request.Value(conditions.Path))
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

// IsAllowed reports whether d is a decision that nothing refused, not even a policy in shadow mode.
func IsAllowed(d *gate.Decision) bool {
	return d.Outcome == gate.Allowed && (d.Shadow == nil || d.Shadow.Outcome == gate.Allowed)
}

// IsEvent reports whether a decision is an event of its own: one of several policies about one check is none.
func IsEvent(d *gate.Decision) bool { return !d.IsAdditional || d.Reported != "" }

// copyOf returns a copy of a key, with its full address.
func copyOf(k keys.Key, parser keys.Parser) keys.Key {
	if network, is := k.Network(); is && network.IsSingleIP() {
		return parser.AddressKey(network.Addr())
	}
	copied, err := parser.Key(strings.Clone(k.String()))
	if err != nil { // the settings for keys have just changed
		return keys.Key{}
	}
	return copied
}
