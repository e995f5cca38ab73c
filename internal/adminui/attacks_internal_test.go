package adminui

import (
	"testing"

	"github.com/stint-dev/stint/internal/offences"
)

// A key that is blocked again while an attack goes on is one key.
func TestBlockedTextCountsKeys(t *testing.T) {
	blocked := func(keys ...string) (all []offences.EscalationEvent) {
		for _, key := range keys {
			all = append(all, offences.EscalationEvent{Kind: offences.EscalationBlocked, Key: key})
		}
		return all
	}
	for want, events := range map[string][]offences.EscalationEvent{
		"":                       {{Kind: offences.EscalationPaused, Key: "a"}},
		"1 key blocked":          blocked("a", "a"),
		"2 keys blocked":         blocked("a", "b", "a"),
		"at least 1 key blocked": blocked(make([]string, maxCountedBlocks)...),
	} {
		if got := blockedText(events); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
