// Command shape measures the sizes that keep this code base easy to find one's
// way in, and fails when one of them exceeds both its limit and the ceiling
// that a list allows it:
//
//   - a type has at most 25 methods,
//   - a Go file has at most 400 lines,
//   - a package has at most 30 files, tests apart,
//   - a line of a template has at most 140 columns.
//
// Usage: shape [-write] ROOT CEILINGS. The file CEILINGS holds one line for
// each exception: what is measured, its name, and how large it may be. A line
// may end in a reason after "#". Ceilings only ever go down: -write lowers them
// to what is measured and removes those that are no longer needed, and never
// raises one or adds one.
package main

import (
	"bufio"
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// limits are the largest sizes that need no exception.
var limits = map[string]int{"methods": 25, "lines": 400, "files": 30, "columns": 140}

// subject is one thing that is measured: what of it, and its name.
type subject struct{ what, name string }

type ceiling struct {
	max    int
	reason string
}

func main() {
	write := flag.Bool("write", false, "lower the ceilings to what is measured")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: shape [-write] ROOT CEILINGS")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), flag.Arg(1), *write); err != nil {
		fmt.Fprintln(os.Stderr, "shape:", err)
		os.Exit(1)
	}
}

func run(root, list string, write bool) error {
	sizes, err := measure(root)
	if err != nil {
		return err
	}
	ceilings, err := read(list)
	if err != nil {
		return err
	}
	exceeded := exceeding(sizes, ceilings)
	if len(exceeded) > 0 {
		return fmt.Errorf("too large:\n  %s", strings.Join(exceeded, "\n  "))
	}
	if write {
		return save(list, lower(sizes, ceilings))
	}
	return nil
}

// exceeding describes every subject that is larger than its limit and its
// ceiling allow.
func exceeding(sizes map[subject]int, ceilings map[subject]ceiling) []string {
	var found []string
	for s, size := range sizes {
		allowed := max(limits[s.what], ceilings[s].max)
		if size > allowed {
			found = append(found, fmt.Sprintf("%s: %d %s, at most %d", s.name, size, s.what, allowed))
		}
	}
	slices.Sort(found)
	return found
}

// lower returns the ceilings that are still needed, at what is measured.
func lower(sizes map[subject]int, ceilings map[subject]ceiling) map[subject]ceiling {
	lowered := map[subject]ceiling{}
	for s, c := range ceilings {
		if size := sizes[s]; size > limits[s.what] {
			lowered[s] = ceiling{min(size, c.max), c.reason}
		}
	}
	return lowered
}

// measure returns the sizes of everything below root that git would not ignore.
func measure(root string) (map[subject]int, error) {
	sizes := map[subject]int{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		switch {
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"bin", "data", "dist", "node_modules", "testdata", "tmp"}, d.Name())):
			return fs.SkipDir
		case d.IsDir():
			return nil
		case strings.HasSuffix(name, ".go"):
			return measureGo(sizes, path, name)
		case strings.HasPrefix(name, "web/templates/"):
			return measureTemplate(sizes, path, name)
		}
		return nil
	})
	return sizes, err
}

func measureGo(sizes map[subject]int, path, name string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	sizes[subject{"lines", name}] = strings.Count(string(text), "\n")
	if strings.HasSuffix(name, "_test.go") {
		return nil
	}
	folder := filepath.ToSlash(filepath.Dir(name))
	sizes[subject{"files", folder}]++
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, decl := range file.Decls {
		if method, ok := decl.(*ast.FuncDecl); ok && method.Recv != nil {
			sizes[subject{"methods", folder + "." + receiver(method.Recv.List[0].Type)}]++
		}
	}
	return nil
}

// receiver returns the name of a receiver's type.
func receiver(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return "?"
}

// measureTemplate counts the lines that are too long, as one size: a template
// is at its limit while it has none.
func measureTemplate(sizes map[subject]int, path, name string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	widest := 0
	for line := range strings.Lines(string(text)) {
		widest = max(widest, len([]rune(strings.TrimRight(line, "\n"))))
	}
	sizes[subject{"columns", name}] = widest
	return nil
}

func read(list string) (map[subject]ceiling, error) {
	text, err := os.ReadFile(list)
	if err != nil {
		return nil, err
	}
	ceilings := map[subject]ceiling{}
	lines := bufio.NewScanner(strings.NewReader(string(text)))
	for number := 1; lines.Scan(); number++ {
		line, reason, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 3 || limits[fields[0]] == 0 {
			return nil, fmt.Errorf("%s:%d: want WHAT NAME SIZE, where WHAT is methods, lines, files or columns", list, number)
		}
		size, err := strconv.Atoi(fields[2])
		if err != nil {
			return nil, fmt.Errorf("%s:%d: the size: %w", list, number, err)
		}
		ceilings[subject{fields[0], fields[1]}] = ceiling{size, strings.TrimSpace(reason)}
	}
	return ceilings, lines.Err()
}

func save(list string, ceilings map[subject]ceiling) error {
	var subjects []subject
	for s := range ceilings {
		subjects = append(subjects, s)
	}
	slices.SortFunc(subjects, func(a, b subject) int {
		return cmp.Or(cmp.Compare(a.what, b.what), cmp.Compare(a.name, b.name))
	})
	var text strings.Builder
	for _, s := range subjects {
		fmt.Fprintf(&text, "%s %s %d", s.what, s.name, ceilings[s].max)
		if reason := ceilings[s].reason; reason != "" {
			fmt.Fprintf(&text, " # %s", reason)
		}
		text.WriteByte('\n')
	}
	return os.WriteFile(list, []byte(text.String()), 0o644)
}
