// Package docs tests that the documents of the repository agree with it.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var quoted = regexp.MustCompile("`((?:internal|cmd|client|migrations|web|test|tools|scripts)(?:/[A-Za-z0-9_.-]+)*)`")

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

// TestEveryPackageIsInTheArchitecture looks for every package of internal.
func TestEveryPackageIsInTheArchitecture(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	packages, err := os.ReadDir(filepath.Join(root, "internal"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packages {
		if p.IsDir() && !strings.Contains(string(text), "`internal/"+p.Name()+"`") {
			t.Errorf("ARCHITECTURE.md does not name internal/%s", p.Name())
		}
	}
}

// TestEveryTestPackageAndToolIsInTheArchitecture looks for every folder of test and of tools.
func TestEveryTestPackageAndToolIsInTheArchitecture(t *testing.T) {
	text := repositoryFile(t, "ARCHITECTURE.md")
	for _, parent := range []string{"test", "tools"} {
		folders, err := os.ReadDir(filepath.Join("..", "..", parent))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range folders {
			if f.IsDir() && !strings.Contains(text, "`"+parent+"/"+f.Name()+"`") {
				t.Errorf("ARCHITECTURE.md does not name %s/%s", parent, f.Name())
			}
		}
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
