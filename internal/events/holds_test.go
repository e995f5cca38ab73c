package events_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/internal/events"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/rules"
)

func TestWhatBecomesOfHoldsIsPublishedAndBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := events.New(events.Options{PerSecond: 2})
		tokens := &rules.Policy{Name: "tokens"}
		end := &gate.HoldEnd{Policy: tokens, Key: "team:a", Result: "settled", Held: 400, Used: 900, Over: 100, Expires: time.Now()}
		h.RecordHold(end) // nobody listens
		l := reader{Listener: h.Listen(events.Filter{Kinds: []events.Kind{events.Hold}, Pattern: pattern(t, "team:a")}, "")}
		other := h.Listen(events.Filter{Kinds: []events.Kind{events.Hold}, Policy: "requests"}, "")
		decisions := h.Listen(events.Filter{Kinds: []events.Kind{events.Decision}}, "")
		d := decided(t, "team:a", gate.Allowed)
		d.Policy, d.Check.Cost, d.HeldUntil = tokens, 400, d.At.Add(time.Minute)
		h.Record(d)
		want := events.HoldChange{State: "held", Held: 400, Used: 400, Expires: d.HeldUntil}
		if e := l.next(); e.Hold != want || e.Policy != "tokens" || e.Key != d.Check.Key {
			t.Errorf("the check: %+v, want %+v", e, want)
		}
		h.RecordHold(end)
		want = events.HoldChange{State: "settled", Held: 400, Used: 900, Over: 100}
		if e := l.next(); e.Hold != want || e.Key != d.Check.Key {
			t.Errorf("the settlement: %+v, want %+v", e, want)
		}
		for range 5 { // beyond the bound of this second
			h.RecordHold(end)
		}
		time.Sleep(2 * time.Second)
		if e := l.next(); e.Kind != events.Notice || e.Skipped != 5 {
			t.Errorf("after too many: %+v, want a notice of 5 that were left out", e)
		}
		h.RecordHold(&gate.HoldEnd{Policy: tokens, Key: "team:b", Result: "released"})
		if rest := received(l.Listener); rest != "" {
			t.Errorf("the listener of team:a received %s", rest)
		}
		for _, one := range []*events.Listener{other, decisions} {
			for e, open := one.Take(); len(e) > 0 && open; e, open = one.Take() {
				for i := range e {
					if e[i].Kind == events.Hold {
						t.Errorf("another listener received %+v", e[i])
					}
				}
			}
		}
	})
}
