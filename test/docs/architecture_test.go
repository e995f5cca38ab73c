// Package docs tests that the documents of the repository agree with it.
package docs

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var quoted = regexp.MustCompile("`((?:internal|cmd|client|limit|migrations|web|test|tools|scripts)(?:/[A-Za-z0-9_.-]+)*)`")

// TestEveryPathInTheArchitectureExists looks up every path that ARCHITECTURE.md
// quotes.
func TestEveryPathInTheArchitectureExists(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	paths := quoted.FindAllStringSubmatch(string(text), -1)
	if len(paths) < 50 {
		t.Fatalf("found %d paths in ARCHITECTURE.md, want at least 50", len(paths))
	}
	for _, path := range paths {
		if _, err := os.Stat(filepath.Join(root, path[1])); err != nil {
			t.Errorf("ARCHITECTURE.md names %s, which does not exist", path[1])
		}
	}
}

// TestEveryPackageHasAComment looks for the comment that says what a package holds.
func TestEveryPackageHasAComment(t *testing.T) {
	root := filepath.Join("..", "..")
	found := 0
	for _, parent := range []string{"internal", "client", "limit", "cmd", "test"} {
		err := filepath.WalkDir(filepath.Join(root, parent), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return err
			}
			if entry.Name() == "testdata" {
				return filepath.SkipDir
			}
			files, err := filepath.Glob(filepath.Join(path, "*.go"))
			if err != nil || len(files) == 0 {
				return err
			}
			found++
			for _, name := range files {
				file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.PackageClauseOnly|parser.ParseComments)
				if err != nil {
					return err
				}
				if text := file.Doc.Text(); strings.HasPrefix(text, "Package ") || strings.HasPrefix(text, "Command ") {
					return nil
				}
			}
			t.Errorf("%s has no package comment", path)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 100 {
		t.Errorf("found %d packages, want at least 100", found)
	}
}

// TestEveryTargetIsInContributing looks for every target of make with a description, except
// those that only start or build something.
func TestEveryTargetIsInContributing(t *testing.T) {
	text := repositoryFile(t, "CONTRIBUTING.md")
	for _, found := range regexp.MustCompile(`(?m)^([a-z-]+):.*## `).FindAllStringSubmatch(repositoryFile(t, "Makefile"), -1) {
		switch target := found[1]; target {
		case "help", "run", "setup", "build":
		default:
			if !strings.Contains(text, "| `make "+target+"` |") {
				t.Errorf("CONTRIBUTING.md does not explain make %s", target)
			}
		}
	}
}
