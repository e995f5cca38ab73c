package admin

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/rules"
)

// The window of an escalation goes back from a minute to the one that begins a window earlier,
// which the service counts too.
func TestPreviewCountsTheSameMinutesAsEscalations(t *testing.T) {
	e := &rules.Escalation{Threshold: 3, Window: time.Hour}
	at := func(minutes ...int64) map[int64]int {
		counts := map[int64]int{}
		for _, m := range minutes {
			counts[m*time.Minute.Milliseconds()]++
		}
		return counts
	}
	if !escalates(e, at(0, 30, 60)) {
		t.Error("refusals in the first and the last minute of a window do not escalate")
	}
	if escalates(e, at(0, 30, 61)) {
		t.Error("a refusal before the window escalates")
	}
}
