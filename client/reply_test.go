package client

import (
	"testing"
	"time"
)

func TestRateLimitHeaderMatchesTheServer(t *testing.T) {
	for _, c := range []struct {
		state   RuleState
		outcome Outcome
		want    string
	}{
		{RuleState{Remaining: 20}, Allowed, `"20/1m";r=20;t=60`},
		{RuleState{Remaining: 19, ResetAfter: 12_001 * time.Millisecond}, Allowed, `"20/1m";r=19;t=13`},
		{RuleState{RetryAfter: 4 * time.Second, ResetAfter: time.Minute}, Allowed, `"20/1m";r=0;t=4`},
		{RuleState{Remaining: 2, RetryAfter: 30 * time.Second, ResetAfter: 50 * time.Second}, Limited, `"20/1m";r=2;t=30`},
		{RuleState{RetryAfter: Never}, Limited, `"20/1m";r=0`},
	} {
		c.state.Rule, c.state.Limit, c.state.Window = "20/1m", 20, time.Minute
		h := rateLimits(&Decision{Answer: Answer{Outcome: c.outcome, Allowed: c.outcome == Allowed}, Rules: []RuleState{c.state}})
		if got := h.Get("RateLimit"); got != c.want {
			t.Errorf("%+v: got %s, want %s", c.state, got, c.want)
		}
	}
}
