package rules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

func readPolicy(d wire.PolicyRequest) (*rules.Policy, error) {
	d.Name, d.Match = "tokens", []string{"team:*"}
	return rules.FromDocument(&d, func(text string) (keys.Pattern, error) { return keys.Parser{}.Pattern(text) })
}

func TestRulesOfAmountsAndOfWhatIsConcurrentAreRead(t *testing.T) {
	for text, want := range map[string]string{
		"1M tokens/1d": "1M tokens/1d", "500k tokens/1m": "500k tokens/1m", "1,000  rows/min": "1000 rows/1m", "16 concurrent": "16 concurrent",
		"16concurrent": "16 concurrent", "1M tokens/d": "1M tokens/1d",
	} {
		r, err := rules.ParseRule(text)
		if err != nil || r.String() != want {
			t.Errorf("%q: got %v, %v, want %s", text, r, err, want)
		}
		if again, err := rules.ParseRule(r.String()); err != nil || again != r {
			t.Errorf("%s: got %v, %v", r, again, err)
		}
	}
	for text, problem := range map[string]string{
		"0 concurrent": "1 to 1024", "1025 concurrent": "1 to 1024", "concurrent": "has no count", "1M Tokens/1d": "count", "5 tokens/h distinct path": "unit",
		"5 concurrent/1h": "count",
	} {
		if r, err := rules.ParseRule(text); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%q: got %v, %v, want an error about %s", text, r, err, problem)
		}
	}
	got := strings.Join(rules.SplitRules("1M tokens/1d 16 concurrent,500k tokens/1m; 5/s 15/d distinct path 20 points/1h"), "|")
	if want := "1M tokens/1d|16 concurrent|500k tokens/1m|5/s|15/d distinct path|20 points/1h"; got != want {
		t.Errorf("SplitRules returns %s, want %s", got, want)
	}
}

func TestPoliciesOfAmountsHaveOneUnit(t *testing.T) {
	p, err := readPolicy(wire.PolicyRequest{Unit: "tokens", Rules: []string{"1M/1d", "500k tokens/1m", "16 concurrent"}, Cost: 2000, Hold: wire.Duration(time.Minute), Also: []string{"user 100k/1d"}})
	if err != nil {
		t.Fatal(err)
	}
	d := p.Document()
	if got := strings.Join(d.Rules, ", ") + "; " + d.Also[0]; got != "16 concurrent, 500k tokens/1m, 1M tokens/1d; user 100000 tokens/1d" || d.Algorithm != algorithms.AmountLog || d.Unit != "tokens" {
		t.Errorf("got %s under %s of %s", got, d.Algorithm, d.Unit)
	}
	if again, err := readPolicy(d); err != nil || len(rules.Diff(p, again)) > 0 {
		t.Errorf("the document is read as %v, %v", rules.Diff(p, again), err)
	}
	if text := p.Describe(); text != "At most 500,000 tokens in any minute and 1,000,000 tokens in any day. At most 16 at once: each takes a place until it is settled or its hold expires." {
		t.Errorf("Describe returns %q", text)
	}
	if p.CostOf(0) != 2000 || p.CostOf(5) != 5 || p.LargestCost() != 500_000 || p.Expiry() != rules.ExpiryKeeps {
		t.Errorf("got %d, %d, %s", p.CostOf(0), p.LargestCost(), p.Expiry())
	}
	for _, c := range []struct {
		document wire.PolicyRequest
		want     string
	}{
		{wire.PolicyRequest{Unit: "tokens", Rules: []string{"5 rows/1d"}}, "counts rows, and the policy counts tokens"},
		{wire.PolicyRequest{Rules: []string{"5 rows/1d", "5 tokens/1h"}}, "one unit"},
		{wire.PolicyRequest{Unit: "To kens", Rules: []string{"5/1d"}}, "unit"},
		{wire.PolicyRequest{Rules: []string{"5/1d"}, Cost: 2}, "cost"},
		{wire.PolicyRequest{Rules: []string{"5 tokens/1d"}, Cost: 6}, "smallest limit"},
		{wire.PolicyRequest{Rules: []string{"5/1d"}, Hold: wire.Duration(time.Minute)}, "hold"},
		{wire.PolicyRequest{Rules: []string{"5 concurrent"}}, "hold is missing"},
		{wire.PolicyRequest{Rules: []string{"5 concurrent"}, Hold: wire.Duration(25 * time.Hour)}, "1s to 1d"},
		{wire.PolicyRequest{Rules: []string{"5 tokens/1d"}, OnExpiry: "drop"}, "keep or release"},
		{wire.PolicyRequest{Rules: []string{"5 tokens/1d"}, Algorithm: algorithms.SortedSetLog}, "keeps single requests"},
		{wire.PolicyRequest{Rules: []string{"5/1d"}, Also: []string{"user 2 concurrent"}, Algorithm: algorithms.TimestampLog, Hold: wire.Duration(time.Minute)}, "hold needs"},
	} {
		if _, err := readPolicy(c.document); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.document.Rules, err, c.want)
		}
	}
}

// Nothing that says what rules mean may divide by the window of a rule of what is concurrent.
func TestRulesOfWhatIsConcurrentAreDescribed(t *testing.T) {
	p, err := readPolicy(wire.PolicyRequest{Rules: []string{"4 concurrent", "20/1m"}, Hold: wire.Duration(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	if w := p.Warnings(); len(w) != 0 {
		t.Errorf("Warnings returns %v", w)
	}
	if used := p.Rules.UsedUp(); len(used) != 1 || used[0].Rule.Limit != 20 {
		t.Errorf("UsedUp returns %v", used)
	}
	only, err := readPolicy(wire.PolicyRequest{Rules: []string{"4 concurrent", "6 concurrent"}, Hold: wire.Duration(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	if w := only.Warnings(); len(w) != 1 || w[0].Rule.Limit != 6 || only.Expiry() != rules.ExpiryReleases || len(only.Rules.UsedUp()) != 0 {
		t.Errorf("got %v, %s, %v", w, only.Expiry(), only.Rules.UsedUp())
	}
	for range only.Rules.FullSpeed() {
		break
	}
}
