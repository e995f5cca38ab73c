package backtest_test

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/backtest"
	"github.com/stint-dev/stint/internal/rules"
)

// TestBurstEscalatesOnce has 60 requests within two seconds, before the block that they cause
// begins, and one after its end: only what comes after a block counts for the next.
func TestBurstEscalatesOnce(t *testing.T) {
	p := policy(t, "default", rules.Enforce, "*", "1/1h")
	p.Escalation = &rules.Escalation{Threshold: 3, Window: 10 * time.Minute, Duration: time.Hour, Factor: 2, MaxDuration: 8 * time.Hour, DecayAfter: 24 * time.Hour}
	var records []accesslog.Record
	for i := range 60 {
		records = append(records, at(t, 120+float64(i)*0.03, "a"))
	}
	records = append(records, at(t, 120+3710, "a"))
	report := run(t, backtest.Options{Plan: backtest.PoliciesPlan([]*rules.Policy{p})}, records...)
	if report.Escalations[0].Blocks != 1 || report.Blocked != 0 {
		t.Errorf("got %d blocks and %d blocked requests, want 1 and 0", report.Escalations[0].Blocks, report.Blocked)
	}
}
