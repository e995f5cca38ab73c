package ratelimit

import (
	"fmt"
	"testing"

	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// A client that spreads r over t must be allowed. If r is 0, or the check
// was refused by the rule, t is the time to retry, as in Retry-After.
func TestRateLimitResetSuitsClientsThatPaceThemselves(t *testing.T) {
	stack, err := rules.ParseStack([]string{"20/m"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what    string
		state   timestamplog.RuleState
		allowed bool
		want    string
	}{
		{"an unused limit", timestamplog.RuleState{Remaining: 20}, true, `"20/1m";r=20;t=60`},
		{"the first request", timestamplog.RuleState{Remaining: 19, ResetAfterMS: 60_000}, true, `"20/1m";r=19;t=60`},
		{"a peek later", timestamplog.RuleState{Remaining: 19, ResetAfterMS: 12_001}, true, `"20/1m";r=19;t=13`},
		{"the last request", timestamplog.RuleState{RetryAfterMS: 4000, ResetAfterMS: 60_000}, true, `"20/1m";r=0;t=4`},
		{"refused", timestamplog.RuleState{RetryAfterMS: 4000, ResetAfterMS: 58_000}, false, `"20/1m";r=0;t=4`},
		{"a large cost allowed", timestamplog.RuleState{Remaining: 2, RetryAfterMS: 30_000, ResetAfterMS: 60_000}, true, `"20/1m";r=2;t=60`},
		{"a large cost refused", timestamplog.RuleState{Remaining: 2, RetryAfterMS: 30_000, ResetAfterMS: 50_000}, false, `"20/1m";r=2;t=30`},
		{"refused by another rule", timestamplog.RuleState{Remaining: 5, ResetAfterMS: 50_000}, false, `"20/1m";r=5;t=50`},
		{"refused always", timestamplog.RuleState{RetryAfterMS: timestamplog.Never}, false, `"20/1m";r=0`},
	} {
		if got := string(textsOf(&rules.Policy{Rules: stack}).appendRemaining(nil, stack, []timestamplog.RuleState{c.state}, c.allowed)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.what, got, c.want)
		}
	}
}

// Every key may have an own limit, and each change makes another.
func TestHeadersOfOwnLimitsAreNotCached(t *testing.T) {
	selector := rules.NewSelector(nil)
	var h Headers
	for i := range 3 {
		stack, err := rules.ParseStack([]string{fmt.Sprint(i+1, "/m")})
		if err != nil {
			t.Fatal(err)
		}
		limit := &profiles.Limit{Rules: stack}
		d := &gate.Decision{Outcome: gate.Allowed, Policy: limit.Apply(nil), OwnLimit: limit}
		if got, want := string(h.Append(nil, d, selector)), fmt.Sprintf("RateLimit-Policy: \"%d/1m\";q=%[1]d;w=60\r\n", i+1); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	d := &gate.Decision{Policy: &rules.Policy{}, OwnLimit: &profiles.Limit{}}
	isCached := func() bool {
		first := h.textsOf(d, selector)
		return first == h.textsOf(d, selector)
	}
	if isCached() {
		t.Error("the headers of an own limit are cached")
	}
	if d.OwnLimit = nil; !isCached() {
		t.Error("the headers of a policy are not cached")
	}
}
