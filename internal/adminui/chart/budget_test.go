package chart_test

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/adminui/chart"
	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/rules"
)

// The drawing rises to what counts now, falls to nothing a window later, and leaves out what no longer counts.
func TestBudgetRisesToWhatCountsAndFallsAsItLeaves(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	ago := func(m time.Duration) time.Time { return now.Add(-m * time.Minute) }
	stack, err := rules.ParseStack([]string{"1000 tokens/1h", "4 concurrent"})
	if err != nil {
		t.Fatal(err)
	}
	px := &gate.PolicyExplanation{
		Policy:  &rules.Policy{Algorithm: algorithms.AmountLog, Rules: stack},
		Rules:   []gate.RuleExplanation{{Rule: stack[0], Used: 3}, {Rule: stack[1], Used: 700}},
		Charged: []gate.AmountCharge{{At: ago(70), Amount: 250}, {At: ago(50), Amount: 200}, {At: ago(20), Amount: 400}},
		Holds:   []gate.OpenHold{{Taken: ago(5), Expires: now.Add(10 * time.Minute), Amount: 100}},
	}
	b := chart.DrawBudget(px, now)
	if b == nil {
		t.Fatal("nothing is drawn")
	}
	if b.Sentence != "700 of 1,000 count now, 100 of them held" {
		t.Errorf("the sentence is %q", b.Sentence)
	}
	var got [][2]int
	for _, p := range b.Points {
		got = append(got, [2]int{p.Charged, p.Held})
	}
	want := [][2]int{{0, 0}, {200, 0}, {600, 0}, {600, 100}, {400, 100}, {0, 100}, {0, 0}}
	if len(got) != len(want) {
		t.Fatalf("the points are %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("point %d is %v, want %v", i, got[i], want[i])
		}
	}
	if b.LimitY != "0.000%" || b.NowX != "50.000%" {
		t.Errorf("the limit is at %s and now at %s", b.LimitY, b.NowX)
	}
	px.Rules[1].Used = 0 // what is concurrent has no budget
	if got := chart.DrawBudget(px, now); got != nil {
		t.Errorf("drawn although nothing counts: %+v", got)
	}
}
