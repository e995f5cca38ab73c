package events

import (
	"time"

	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

var _ gate.HoldRecorder = (*Hub)(nil)

// recordHeld publishes what a check holds under its policy and its shadow policy.
func (h *Hub) recordHeld(d *gate.Decision) {
	held := func(p *rules.Policy, a *gate.Answer, key keys.Key) {
		if a.HeldUntil.IsZero() || a.Replayed {
			return
		}
		h.publishWithin(&h.holds, d.At, func() Event {
			cost := int64(d.Check.Cost)
			return Event{Kind: Hold, At: d.At, Key: copyOf(key, h.o.Parser()), Policy: p.Name, Hold: HoldChange{State: "held", Held: cost, Used: cost, Expires: a.HeldUntil}}
		})
	}
	if d.Policy != nil {
		held(d.Policy, &d.Answer, d.CountedKey())
	}
	if s := d.Shadow; s != nil {
		held(s.Policy, &s.Answer, d.Check.Key)
	}
}

// RecordHold implements gate.HoldRecorder, under the bounds of Record.
func (h *Hub) RecordHold(e *gate.HoldEnd) {
	now := h.o.Now()
	if now.UnixNano() > h.until.Load() {
		return
	}
	h.publishWithin(&h.holds, now, func() Event {
		key, err := h.o.Parser().Key(e.Key)
		if err != nil { // the settings for keys have just changed
			key = keys.Key{}
		}
		change := HoldChange{State: e.Result, Held: e.Held, Used: e.Used, Over: e.Over}
		if e.Result == "extended" {
			change.Used = e.Held
		}
		if e.Result == "extended" || e.Result == "expired" {
			change.Expires = e.Expires
		}
		return Event{Kind: Hold, At: now.Truncate(time.Millisecond), Key: copyOf(key, h.o.Parser()), Policy: e.Policy.Name, Hold: change}
	})
}
