package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	pageLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	pageHeading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchorsOf returns the anchors of a page's headings, as GitHub makes them.
func anchorsOf(page string) map[string]bool {
	anchors := map[string]bool{}
	for _, found := range pageHeading.FindAllStringSubmatch(page, -1) {
		text := notInAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(found[1])), "")
		anchors[strings.ReplaceAll(text, " ", "-")] = true
	}
	return anchors
}

// TestEveryLinkLeadsSomewhere follows the links between the pages of the repository, to files,
// folders and headings.
func TestEveryLinkLeadsSomewhere(t *testing.T) {
	root := filepath.Join("..", "..")
	var pages []string
	for _, pattern := range []string{"*.md", "clients/*/README.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range pageLink.FindAllStringSubmatch(string(text), -1) {
			path, anchor, hasAnchor := strings.Cut(found[1], "#")
			if strings.Contains(path, ":") {
				continue // another host
			}
			links++
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), filepath.FromSlash(path))
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, found[1])
				continue
			}
			if !hasAnchor {
				continue
			}
			if linked, err := os.ReadFile(target); err != nil || !anchorsOf(string(linked))[anchor] {
				t.Errorf("%s links to %s, which has no such heading", page, found[1])
			}
		}
	}
	if len(pages) < 40 || links < 120 {
		t.Errorf("found %d pages with %d links, want at least 40 and 120", len(pages), links)
	}
}
