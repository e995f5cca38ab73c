package notify

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// A kind that urgency does not name would count as not urgent.
func TestEveryKindHasAnUrgency(t *testing.T) {
	text, err := os.ReadFile("notify.go")
	if err != nil {
		t.Fatal(err)
	}
	kinds := regexp.MustCompile(`(?m)^\s*\w+\s+Kind = "([^"]+)"`).FindAllSubmatch(text, -1)
	if len(kinds) < 5 {
		t.Fatalf("found only %d kinds in notify.go", len(kinds))
	}
	for _, kind := range kinds {
		if !slices.Contains(urgency, Kind(kind[1])) {
			t.Errorf("urgency does not name %s", kind[1])
		}
	}
}
