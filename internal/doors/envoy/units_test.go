package envoy

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/rules"
)

func TestLimitOfUsesTheLargestUnitThatFits(t *testing.T) {
	for text, want := range map[string]struct {
		unit       string
		multiplier uint32
	}{
		"5/s": {"SECOND", 0}, "5/10s": {"SECOND", 10}, "5/90s": {"SECOND", 90}, "5/m": {"MINUTE", 0}, "5/2h": {"HOUR", 2},
		"5/d": {"DAY", 0}, "5/7d": {"WEEK", 0}, "5/10d": {"DAY", 10}, "5/1500ms": {"UNKNOWN", 0},
	} {
		stack, err := rules.ParseStack([]string{text})
		if err != nil {
			t.Fatal(err)
		}
		got := limitOf(stack[0])
		if got.GetUnit().String() != want.unit || got.GetUnitMultiplier().GetValue() != want.multiplier || got.GetRequestsPerUnit() != 5 || got.GetName() != stack[0].String() {
			t.Errorf("%s: got %v", text, got)
		}
	}
}

func TestWholeSecondsRoundsUp(t *testing.T) {
	for wait, want := range map[time.Duration]int64{
		0: 0, time.Nanosecond: 1, time.Millisecond: 1, time.Second - 1: 1, time.Second: 1, time.Second + 1: 2, time.Second + time.Millisecond: 2,
	} {
		if got := wholeSeconds(wait).GetSeconds(); got != want {
			t.Errorf("%s: got %d s, want %d", wait, got, want)
		}
	}
}
