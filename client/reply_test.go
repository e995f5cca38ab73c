package client

import (
	"testing"
	"time"
)

// A hold is renewed for what is left of it, also if this machine's clock is an hour ahead of Stint's.
func TestHoldsLastByTheClockOfStint(t *testing.T) {
	given := wireAnswer{Hold: &wireHeldCost{Handle: "h", ExpiresAt: time.Now().Add(-time.Hour), ExpiresInMS: 600_000}}
	held := given.answer().Held
	if held.setLength(0); held.length != 10*time.Minute {
		t.Errorf("it is renewed for %s", held.length)
	}
	if held.setLength(time.Minute); held.length != time.Minute {
		t.Errorf("it is renewed for %s, not for what was asked", held.length)
	}
}

// A version of Stint that does not say what is left says when the hold expires.
func TestHoldsOfAnEarlierVersionLastUntilTheyExpire(t *testing.T) {
	given := wireAnswer{Hold: &wireHeldCost{Handle: "h", ExpiresAt: time.Now().Add(time.Hour)}}
	held := given.answer().Held
	if held.setLength(0); held.length < 50*time.Minute {
		t.Errorf("it is renewed for %s", held.length)
	}
}

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
