package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// errorCodes find the codes of problems where the code defines them.
var errorCodes = map[string]*regexp.Regexp{
	"internal/fault/fault.go":        regexp.MustCompile(`Code += "([a-z_]+)"`),
	"internal/httpserver/problem.go": regexp.MustCompile(`(?:http\.Status[A-Za-z]+(?::|,) +)"([a-z_]+)"`),
}

// TestEveryErrorCodeIsDocumented looks up every code of a problem in docs/API.md.
func TestEveryErrorCodeIsDocumented(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "docs", "API.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for path, codes := range errorCodes {
		source, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range codes.FindAllSubmatch(source, -1) {
			seen++
			if !strings.Contains(string(text), "| `"+string(found[1])+"` |") {
				t.Errorf("docs/API.md does not explain the code %s of %s", found[1], path)
			}
		}
	}
	if seen < 18 {
		t.Errorf("found %d codes, want those of both files", seen)
	}
}
