package adminui_test

import (
	"net/http"
	"regexp"
	"testing"
)

var selectionText = regexp.MustCompile(`selected: ([0-9,]+) refused, [0-9.]+% of checks`)

// The points of a chart of days are hours, and an attack is counted from its minute on all the same.
func TestOverviewCountsAttackOfEveryTimeRange(t *testing.T) {
	n := newNode(t)
	n.attack(t)
	v := n.as(t, "vic")
	want := selectionText.FindString(v.get("/").is(http.StatusOK).body)
	if want == "" {
		t.Fatal("the overview selects no attack")
	}
	for _, path := range []string{"/?last=24h", "/?last=7d"} {
		if got := selectionText.FindString(v.get(path).is(http.StatusOK).body); got != want {
			t.Errorf("%s: got %q, want %q as in the last hour", path, got, want)
		}
	}
}
