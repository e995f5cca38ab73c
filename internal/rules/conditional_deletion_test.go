package rules

import (
	"testing"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/wire"
)

// What the deletion of a policy means depends on whether it decides about keys alone or in addition to others.
func TestDescribeDeletionOfEachKind(t *testing.T) {
	const additional = "What it refuses is then not refused any more; the other policies of its keys go on."
	when := func(name, value string) wire.PolicyWhen { return wire.WhenOf(map[string][]string{name: {value}}) }
	for name, c := range map[string]struct {
		document wire.PolicyRequest
		want     string
	}{
		"plain":       {wire.PolicyRequest{Rules: []string{"5/1m"}}, "Its keys then fall under the policy with the next broader pattern, and have no limit where there is none."},
		"off":         {wire.PolicyRequest{Rules: []string{"5/1m"}, Mode: "off"}, "Its keys then fall under the policy with the next broader pattern, and have no limit where there is none."},
		"shadow":      {wire.PolicyRequest{Rules: []string{"5/1m"}, Mode: "shadow"}, "It refuses nobody now, and nothing counts any more what it would refuse."},
		"conditional": {wire.PolicyRequest{When: when("path", "/login"), Rules: []string{"5/1m"}, OnLimit: "block"}, additional + " Its automatic blocks stay until they end."},
		"outcome":     {wire.PolicyRequest{Outcome: "failed", Rules: []string{"5/1m"}}, additional},
		"evidence":    {wire.PolicyRequest{Evidence: []string{"20 path @secrets"}, Rules: []string{"20 points/1h"}}, additional},
		"distinct":    {wire.PolicyRequest{Rules: []string{"5/1h distinct path"}}, additional},
		"attack":      {wire.PolicyRequest{When: when("attack", "on"), Rules: []string{"5/1m"}}, "What it refuses while an attack goes on is then not refused any more."},
	} {
		c.document.Name, c.document.Match = "x", []string{"ip:*"}
		p, err := FromDocument(&c.document, keys.Parser{}.Pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.DescribeDeletion(); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
