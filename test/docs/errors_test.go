package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// errorCodes find the codes of problems where the code defines them.
var errorCodes = map[string]*regexp.Regexp{
	"internal/fault/fault.go":        regexp.MustCompile(`Code += "([a-z_]+)"`),
	"internal/gate/decision.go":      regexp.MustCompile(`(?m)^\t(?:Limited|Blocked|Unavailable) +Outcome = "([a-z]+)"`), // of refusals by the door for gateways
	"internal/httpserver/problem.go": regexp.MustCompile(`(?:http\.Status[A-Za-z]+(?::|,) +)"([a-z_]+)"`),
}

// codeSources are the files that make a problem, with what its code comes from: one of
// errorCodes, or the text itself.
var codeSources = map[string]string{
	"internal/httpserver/problem.go":       "internal/fault/fault.go, itself and internal",
	"internal/doors/forwardauth/answer.go": "internal/gate/decision.go",
	"internal/doors/envoy/extauthz.go":     "internal/gate/decision.go",
}

// problemCode finds where Go code writes the code of a problem.
var problemCode = regexp.MustCompile(`wire\.Problem\{[^}]*\bCode:|"code\\?":\\?"|,\\?"code\\?":`)

// TestEveryProblemSourceIsListed fails if a new file creates problems, until it is listed in
// codeSources, and its codes are found by errorCodes.
func TestEveryProblemSourceIsListed(t *testing.T) {
	root := filepath.Join("..", "..", "internal")
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err == nil && problemCode.Match(source) {
			found[filepath.ToSlash(strings.TrimPrefix(path, filepath.Join("..", "..")+string(filepath.Separator)))] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for path := range found {
		if codeSources[path] == "" {
			t.Errorf("%s creates a problem and is not in codeSources", path)
		}
	}
	for path := range codeSources {
		if !found[path] {
			t.Errorf("%s is in codeSources and creates no problem", path)
		}
	}
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
	if seen < 21 {
		t.Errorf("found %d codes, want at least 21", seen)
	}
}
