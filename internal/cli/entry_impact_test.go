package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/wire"
)

func TestThePreviewSuggestsANarrowerPattern(t *testing.T) {
	got := impactLines(&wire.Impact{
		Pattern:   "ip:203.0.113.0/24",
		Estimate:  &wire.TrafficEstimate{Keys: 3, AllKeys: 1200, Ratio: 0.5, RatioError: 0.01},
		Counted:   &wire.CountedKeys{Keys: 12, Offenders: 3, Allowed: 1, Refused: 40},
		Suggested: &wire.SuggestedPattern{Pattern: "ip:203.0.113.64/28", Refused: 38},
	})
	if !strings.HasPrefix(got[0], "It would have refused about 3 of 1,200 keys and 50.0 ± 1.0 % of the checks from ") {
		t.Errorf("the estimate: %q", got[0])
	}
	for _, want := range []string{
		"It covers at least 12 keys of the last day, of which 3 offended: 1 check was allowed, 40 refused.",
		"Consider ip:203.0.113.64/28 instead, a narrower pattern with most of the offences: 38 refused and 0 allowed.",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is missing in %q", want, got)
		}
	}
	if got := impactLines(&wire.Impact{Pattern: "a:*", Counted: &wire.CountedKeys{Exact: true}}); len(got) != 1 {
		t.Errorf("without traffic: %q", got)
	}
}
