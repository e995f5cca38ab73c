package detection

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// document is written by "make bench-detection".
var document = flag.String("document", "", "the file that BenchmarkQuality writes its tables to")

var part = flag.Float64("part", 1, "the part of the clients of each kind that BenchmarkQuality has")

// BenchmarkQuality measures all systems that are installed, which takes some minutes.
func BenchmarkQuality(b *testing.B) {
	var real *Traffic
	folder := os.Getenv("STINT_TEST_DATA")
	if folder == "" {
		folder = filepath.Join("..", "..", "..", "shared", "data")
	}
	path := filepath.Join(folder, "apache_access.log.gz")
	if _, err := os.Stat(path); err != nil {
		b.Logf("without the real log; STINT_TEST_DATA names its folder: %v", err)
	} else if real, err = readLog(b.Context(), path); err != nil {
		b.Fatal(err)
	}
	var text strings.Builder
	for b.Loop() {
		text.Reset()
		if err := write(b.Context(), &text, Generate(1, *part), real); err != nil {
			b.Fatal(err)
		}
	}
	if *document == "" {
		b.Log("\n" + text.String())
	} else if err := os.WriteFile(*document, []byte(text.String()), 0o644); err != nil {
		b.Fatal(err)
	}
}

// TestPresetsCatchAttackersAndSpareOthers tries the presets on a part of the day.
func TestPresetsCatchAttackersAndSpareOthers(t *testing.T) {
	day := Generate(1, 0.1)
	if again := Generate(1, 0.1); !slices.Equal(day.Requests, again.Requests) {
		t.Error("the same seed makes another day")
	}
	refused, err := systems[0].decide(t.Context(), day)
	if err != nil {
		t.Fatal(err)
	}
	s, err := score(day, refused)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Attackers) != 13 || len(s.Benign) != 7 {
		t.Errorf("there are %d kinds of attack and %d of benign clients", len(s.Attackers), len(s.Benign))
	}
	for _, a := range s.Attackers {
		missed := slices.Contains([]string{"spray from one /24", "botnet, three tries each", "botnet at one account", "one to three exploits"}, a.Label)
		if a.Caught < a.Attackers && !missed {
			t.Errorf("%s: %d of %d are caught", a.Label, a.Caught, a.Attackers)
		}
		if (strings.HasPrefix(a.Label, "guess") || strings.HasPrefix(a.Label, "scanner")) && a.ServedMax > goal(a.Label) {
			t.Errorf("%s: %d requests are served until one is caught", a.Label, a.ServedMax)
		}
	}
	for _, b := range s.Benign {
		if b.Ratio > allowance(b.Label) {
			t.Errorf("%s: %d of %d requests are refused", b.Label, b.Refused, b.Requests)
		}
	}
}
