package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var metricName = regexp.MustCompile(`"(stint_[a-z_]+[a-z])"`)

// TestEveryMetricIsDocumented looks up every metric of a node in docs/OPERATORS.md.
func TestEveryMetricIsDocumented(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "docs", "OPERATORS.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, pattern := range []string{"internal/metrics/*.go", "internal/app/*.go"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range metricName.FindAllSubmatch(source, -1) {
				name := string(found[1])
				seen[name] = true
				if !strings.Contains(string(text), "`"+name+"`") && !strings.Contains(string(text), "`"+name+"{") {
					t.Errorf("docs/OPERATORS.md does not explain the metric %s of %s", name, path)
				}
			}
		}
	}
	if len(seen) < 30 {
		t.Errorf("found %d metrics, want at least 30", len(seen))
	}
}
