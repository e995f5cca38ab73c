package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree writes files into a new folder and returns it.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func methods(count int) string {
	text := "package p\n\ntype T[A any] struct{}\n"
	for i := range count {
		text += "func (t *T[A]) M" + strings.Repeat("x", i) + "() {}\n"
	}
	return text
}

func TestRunReportsWhatExceedsALimit(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"methods": {map[string]string{"p/t.go": methods(26)}, "p.T: 26 methods, at most 25"},
		"lines":   {map[string]string{"p/l.go": "package p\n" + strings.Repeat("\n", 400)}, "p/l.go: 401 lines, at most 400"},
		"columns": {map[string]string{"web/templates/a.html": strings.Repeat("ä", 141)}, "web/templates/a.html: 141 columns, at most 140"},
	} {
		t.Run(name, func(t *testing.T) {
			test.files["ceilings"] = ""
			root := tree(t, test.files)
			err := run(root, filepath.Join(root, "ceilings"), false)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestCeilingAllowsNoMoreThanItNames(t *testing.T) {
	root := tree(t, map[string]string{"p/t.go": methods(26), "ceilings": "methods p.T 26 # a reason\n"})
	list := filepath.Join(root, "ceilings")
	if err := run(root, list, false); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "p/t.go"), []byte(methods(27)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := run(root, list, false); err == nil {
		t.Fatal("run with 27 methods and a ceiling of 26: got no error")
	}
}

func TestCeilingsOnlyGoDown(t *testing.T) {
	root := tree(t, map[string]string{"p/t.go": methods(26), "ceilings": "methods p.Gone 40\nmethods p.T 30 # a reason\n"})
	list := filepath.Join(root, "ceilings")
	if err := run(root, list, true); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(text), "methods p.T 26 # a reason\n"; got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
}
