package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// setPolicy matches a command that makes a policy: its name and its patterns, conditions and rules.
var setPolicy = regexp.MustCompile("policy set ([a-z-]+)((?: --?[a-z-]+(?: (?:'[^']*'|[^ `\\n]+))?)+)")

// TestPoliciesOfTheDocumentsHaveNamesOfTheirOwn: a reader who follows two pages has the policies of both.
func TestPoliciesOfTheDocumentsHaveNamesOfTheirOwn(t *testing.T) {
	pages := []string{"../../README.md"}
	for _, pattern := range []string{"../../docs/*.md", "../../docs/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	type use struct{ page, policy string }
	uses := map[string]use{}
	patterns := map[string]string{} // of policies without conditions, which have each pattern once
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range setPolicy.FindAllStringSubmatch(string(text), -1) {
			name, flags := found[1], found[2]
			if !strings.Contains(flags, "--match") {
				continue // it changes a policy
			}
			if other, is := uses[name]; is && other.policy != flags {
				t.Errorf("%s makes the policy %s by%s, and %s by%s", page, name, flags, other.page, other.policy)
			}
			uses[name] = use{page, flags}
			if strings.Contains(flags, "--when") || strings.Contains(flags, "--outcome") || strings.Contains(flags, "distinct") || strings.Contains(flags, "shadow") {
				continue
			}
			for _, match := range regexp.MustCompile(`--match '?([^ ']+)`).FindAllStringSubmatch(flags, -1) {
				if other := patterns[match[1]]; other != "" && other != name {
					t.Errorf("%s gives the pattern %s to the policy %s; it belongs to %s", page, match[1], name, other)
				}
				patterns[match[1]] = name
			}
		}
	}
	if len(uses) < 15 || !slices.Contains(pages, "../../docs/quickstarts/nginx.md") {
		t.Errorf("found %d policies on %d pages", len(uses), len(pages))
	}
}
