package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// kinds are the sections that a version may have, in the order of Keep a Changelog.
var kinds = []string{"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}

var versionHeading = regexp.MustCompile(`^## \[([^\]]+)\](?: - (\d{4}-\d\d-\d\d))?$`)

// TestChangelogIsSorted reads CHANGELOG.md: versions from the newest on, each with a date,
// their sections in order and once, and no line twice.
func TestChangelogIsSorted(t *testing.T) {
	var versions []string
	var date string
	section, seen := -1, map[string]bool{}
	text := repositoryFile(t, "CHANGELOG.md")
	for i, line := range strings.Split(text, "\n") {
		kind, isSection := strings.CutPrefix(line, "### ")
		heading := versionHeading.FindStringSubmatch(line)
		switch {
		case heading != nil:
			if (heading[1] == "Unreleased") != (len(versions) == 0) || (heading[2] == "") != (len(versions) == 0) {
				t.Errorf("line %d: %q; Unreleased comes first, and only versions have a date", i+1, line)
			}
			if len(versions) > 1 && heading[2] > date {
				t.Errorf("line %d: %q is newer than the version above", i+1, line)
			}
			versions, date = append(versions, heading[1]), heading[2]
			section = -1
		case strings.HasPrefix(line, "## "):
			t.Errorf("line %d: %q is no heading of a version", i+1, line)
		case isSection:
			at := slices.Index(kinds, kind)
			if at <= section {
				t.Errorf("line %d: the section %s; there may be %q in this order", i+1, kind, kinds)
			}
			section = at
		case strings.HasPrefix(line, "- "):
			if section < 0 || seen[line] {
				t.Errorf("line %d: %q is outside of a section, or a duplicate", i+1, line)
			}
			seen[line] = true
		}
	}
	if len(versions) < 2 {
		t.Fatalf("the changelog has the versions %q, want at least 2", versions)
	}
	for _, v := range versions {
		if !strings.Contains(text, "\n["+v+"]: https://") {
			t.Errorf("the version %s has no link at the end", v)
		}
	}
	// The last released version is the same everywhere: a commit is the end of the name that
	// the Go command gives it.
	released := regexp.MustCompile(`(?m)^released := (\S+)$`).FindStringSubmatch(repositoryFile(t, "Makefile"))
	if released == nil {
		t.Fatal("the Makefile names no released version")
	}
	commit := versions[1][strings.LastIndex(versions[1], "-")+1:]
	if name := strings.TrimPrefix(released[1], "v"); name != versions[1] && !strings.HasPrefix(commit, name) {
		t.Errorf("the last version of the changelog is %s, and the Makefile's %s", versions[1], released[1])
	}
	if !strings.Contains(repositoryFile(t, "docs/UPGRADING.md"), "| `"+released[1]+"` |") {
		t.Errorf("the table of docs/UPGRADING.md has no %s", released[1])
	}
	if _, err := os.Stat(filepath.Join("../..", "test/upgrade/testdata", released[1])); err != nil {
		t.Errorf("there is no fixture of the last version: %v", err)
	}
}

func repositoryFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
