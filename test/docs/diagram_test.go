package docs

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// place is where the diagram of ARCHITECTURE.md draws a package.
type place struct{ floor, order int }

var (
	floorNumber = regexp.MustCompile(`^\s*(\d) `)
	drawn       = regexp.MustCompile(`internal/\w+`)
)

// readDiagram returns the places of the packages of internal in the diagram.
func readDiagram(t *testing.T, root string) map[string]place {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	places, floor := map[string]place{}, 0
	for line := range strings.Lines(strings.Split(string(text), "```")[1]) {
		if number := floorNumber.FindStringSubmatch(line); number != nil {
			floor, _ = strconv.Atoi(number[1])
		}
		for _, name := range drawn.FindAllString(line, -1) {
			if _, known := places[name]; !known {
				places[name] = place{floor, len(places)}
			}
		}
	}
	return places
}

// packageOf returns the package of internal that a folder or an import belongs to, as the
// diagram names it, "" for others.
func packageOf(path string) string {
	parts := strings.Split(path, "/")
	if len(parts) < 2 || parts[0] != "internal" {
		return ""
	}
	return parts[0] + "/" + parts[1]
}

// TestArchitectureDiagramMatchesTheImports compares the imports of all packages with the diagram: they point
// downwards, or on the same floor to the left.
func TestArchitectureDiagramMatchesTheImports(t *testing.T) {
	root := filepath.Join("..", "..")
	places := readDiagram(t, root)
	if len(places) < 40 {
		t.Fatalf("the diagram has %d packages, want at least 40", len(places))
	}
	imports := 0
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		from := packageOf(filepath.ToSlash(name))
		above, known := places[from]
		if !known {
			t.Errorf("the diagram lacks %s", from)
			return nil
		}
		for _, i := range file.Imports {
			imported, _ := strconv.Unquote(i.Path.Value)
			to := packageOf(strings.TrimPrefix(imported, "github.com/stint-dev/stint/"))
			if to == "" || to == from {
				continue
			}
			imports++
			switch below, known := places[to]; {
			case !known:
				t.Errorf("the diagram lacks %s", to)
			case below.floor > above.floor, below.floor == above.floor && below.order > above.order:
				t.Errorf("%s imports %s, which the diagram draws above it or to its right", name, to)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if imports < 500 {
		t.Errorf("found only %d imports, want at least 500", imports)
	}
}
