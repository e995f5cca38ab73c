package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/wire"
)

// TestImportSaysWhichKeysEachEstimateCovers imports rows that match more keys than they would
// additionally refuse.
func TestImportSaysWhichKeysEachEstimateCovers(t *testing.T) {
	folder := t.TempDir()
	file := func(name string) *os.File {
		f, err := os.Create(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	out, notes := file("out"), file("notes")
	con := &console.Console{System: console.System{Name: "admin", Stdout: out, Stderr: notes, Getenv: func(string) string { return "" }, Now: time.Now}, Format: "table"}
	err := printImport(con, "block", &wire.ImportAnswer{
		Rows: 2, Created: 2, DryRun: true, Estimate: &wire.TrafficEstimate{Keys: 760, AllKeys: 872, Ratio: 0.558}, Confirm: "x", BroadCount: 1,
		Broad: []wire.BroadRow{{Line: 1, Rows: 2, Pattern: "ip:0.0.0.0/0", ConfirmReason: "it selects every key", Estimate: &wire.TrafficEstimate{Keys: 864, AllKeys: 872, Ratio: 0.996}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	contentOf := func(f *os.File) string {
		text, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if want := "Beside what is blocked or exempt already, they would have refused about 760 of 872 keys and 55.8 "; !strings.Contains(contentOf(out), want) {
		t.Errorf("%q is not in %s", want, contentOf(out))
	}
	if want := "    Blocked and exempt keys included, it matches about 864 of 872 keys and 99.6 "; !strings.Contains(contentOf(notes), want) {
		t.Errorf("%q is not in %s", want, contentOf(notes))
	}
}

// TestImportOfExemptionsNamesOverlaps ensures that exemptions are not called an exception of
// themselves, as they are of blocks.
func TestImportOfExemptionsNamesOverlaps(t *testing.T) {
	for noun, want := range map[string]string{"block": "    Stays allowed by the exemption of ip:10.0.0.1.", "exemption": "    Overlaps the exemption of ip:10.0.0.1."} {
		notes, err := os.Create(filepath.Join(t.TempDir(), "notes"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { notes.Close() })
		con := &console.Console{System: console.System{Name: "admin", Stderr: notes, Getenv: func(string) string { return "" }}}
		printBroad(con, noun, []wire.BroadRow{{Line: 1, Rows: 1, Pattern: "ip:10.0.0.0/8", ConfirmReason: "it is wider than a /16", Exemptions: []string{"ip:10.0.0.1"}}}, 1)
		if text, err := os.ReadFile(notes.Name()); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%ss: %q is not in %s, %v", noun, want, text, err)
		}
	}
}

func TestImpactLinesSuggestANarrowerPattern(t *testing.T) {
	got := impactLines(&wire.Impact{
		Pattern:   "ip:203.0.113.0/24",
		Estimate:  &wire.TrafficEstimate{Keys: 3, AllKeys: 1200, Ratio: 0.5, RatioError: 0.01},
		Counted:   &wire.CountedKeys{Keys: 12, Offenders: 3, Allowed: 1, Refused: 40},
		Suggested: &wire.SuggestedPattern{Pattern: "ip:203.0.113.64/28", Refused: 38},
	})
	if !strings.HasPrefix(got[0], "Blocked and exempt keys included, it matches about 3 of 1,200 keys and 50.0 ± 1.0 % of the allowed checks from ") {
		t.Errorf("impactLines: the estimate is %q", got[0])
	}
	for _, want := range []string{
		"It covers at least 12 keys of the last day, of which 3 offended: 1 check was allowed, 40 refused.",
		"Consider ip:203.0.113.64/28 instead, a narrower pattern with most of the offences: 38 refused and 0 allowed.",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("impactLines: %q is missing in %q", want, got)
		}
	}
	if got := impactLines(&wire.Impact{Pattern: "a:*", Counted: &wire.CountedKeys{Exact: true}}); len(got) != 1 {
		t.Errorf("impactLines without traffic: got %q, want one line", got)
	}
}
