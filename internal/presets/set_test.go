package presets_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/presets"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/sqlstore"
)

// TestNewDatabaseBeginsWithWhatWasChosen: without a choice no check is refused, and the node says so. Each choice is enforced.
func TestNewDatabaseBeginsWithWhatWasChosen(t *testing.T) {
	for _, text := range []string{"", "api", "website, traps", strings.Join(presets.Names(), ",")} {
		set, err := presets.ParseSet(text)
		if err != nil {
			t.Fatal(err)
		}
		store, err := sqlstore.New(filepath.Join(t.TempDir(), "stint.db"), sqlstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		store.FirstPolicies = set.Policies()
		if err := store.Prepare(t.Context()); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		all, err := store.Policies.Policies(t.Context())
		store.Close()
		if err != nil || len(all) == 0 {
			t.Fatalf("%q: got %d policies, %v", text, len(all), err)
		}
		said := ""
		if question := presets.Ask(rules.NewSelector(all)); question != nil {
			said = question.String()
		}
		if isUndecided := text == ""; isUndecided != (said != "") || isUndecided && !strings.Contains(said, "the policy default only counts") {
			t.Errorf("%q: got %q", text, said)
		}
	}
}

func TestParseSetRefusesWhatIsNoPreset(t *testing.T) {
	for _, text := range []string{"webside", "api,api"} {
		if set, err := presets.ParseSet(text); err == nil {
			t.Errorf("%s: got %v, want an error", text, set)
		}
	}
}
