package supervise_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// excluded are the folders whose goroutines are not part of the service, each with
// the reason why a panic in them may end the process.
var excluded = map[string]string{
	"internal/cli":       "a command: a panic ends it and prints the stack, which the user needs",
	"internal/firewall":  "runs in the command line only",
	"internal/logfollow": "runs in the command line only",
}

// TestEveryGoroutineOfTheServiceIsSupervised reads the source. What starts a
// goroutine, a go statement or a function handed to WaitGroup.Go or AfterFunc,
// must be a call of this package, or a function that does nothing beside
// deferring before it makes one.
func TestEveryGoroutineOfTheServiceIsSupervised(t *testing.T) {
	root := filepath.Join("..", "..")
	files := token.NewFileSet()
	starts := 0
	for _, top := range []string{"internal", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name, _ := filepath.Rel(root, path)
			if entry.IsDir() {
				if _, known := excluded[filepath.ToSlash(name)]; known {
					return fs.SkipDir
				}
				return nil
			}
			if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, bad := range unsupervised(file, &starts) {
				t.Errorf("%s starts a goroutine that does not begin with supervise.Run, Call or Do", files.Position(bad))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if starts < 20 {
		t.Errorf("found only %d starts of goroutines; the test reads the wrong files", starts)
	}
}

// TestUnsupervisedFindsGoroutineStarts tests unsupervised on short sources.
func TestUnsupervisedFindsGoroutineStarts(t *testing.T) {
	const head = "package p\nfunc f() {\n"
	for source, want := range map[string]int{
		`go work()`:              1,
		`go func() { work() }()`: 1,
		`group.Go(work)`:         1,
		`group.Go(func() { work(); supervise.Do("x", work) })`:                         1,
		`time.AfterFunc(1, work)`:                                                      1,
		`context.AfterFunc(ctx, func() { work() })`:                                    1,
		`go supervise.Run(ctx, "x", work)`:                                             0,
		`go func() { defer close(c); err := supervise.Call("x", work); c <- err }()`:   0,
		`group.Go(func() { supervise.Do("x", work) })`:                                 0,
		`group.Go(func() { if err := supervise.Call("x", work); err != nil { a() } })`: 0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", head+source+"\n}", parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		starts := 0
		if got := len(unsupervised(file, &starts)); got != want || starts != 1 {
			t.Errorf("%s: %d of %d starts are unsupervised, want %d of 1", source, got, starts, want)
		}
	}
}

func unsupervised(file *ast.File, starts *int) (bad []token.Pos) {
	check := func(at token.Pos, supervised bool) {
		*starts++
		if !supervised {
			bad = append(bad, at)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			check(n.Pos(), isSupervise(n.Call) || beginsSupervised(n.Call.Fun))
		case *ast.CallExpr:
			selector, is := n.Fun.(*ast.SelectorExpr)
			if !is || len(n.Args) == 0 {
				break
			}
			if name := selector.Sel.Name; (name == "Go" && len(n.Args) == 1) || name == "AfterFunc" {
				check(n.Pos(), beginsSupervised(n.Args[len(n.Args)-1]))
			}
		}
		return true
	})
	return bad
}

// beginsSupervised reports whether f is a function literal whose first
// statement, deferred ones left out, makes a call of this package.
func beginsSupervised(f ast.Expr) bool {
	literal, is := f.(*ast.FuncLit)
	if !is {
		return false
	}
	for _, statement := range literal.Body.List {
		var call ast.Expr
		switch s := statement.(type) {
		case *ast.DeferStmt:
			continue
		case *ast.ExprStmt:
			call = s.X
		case *ast.AssignStmt:
			call = s.Rhs[0]
		case *ast.IfStmt:
			if init, is := s.Init.(*ast.AssignStmt); is {
				call = init.Rhs[0]
			}
		}
		// It may be the argument of a call that takes its outcome.
		if outer, is := call.(*ast.CallExpr); is && !isSupervise(outer) && len(outer.Args) > 0 {
			call = outer.Args[len(outer.Args)-1]
		}
		return isSupervise(call)
	}
	return false
}

func isSupervise(e ast.Expr) bool {
	call, is := e.(*ast.CallExpr)
	if !is {
		return false
	}
	selector, is := call.Fun.(*ast.SelectorExpr)
	if !is {
		return false
	}
	from, is := selector.X.(*ast.Ident)
	return is && from.Name == "supervise"
}
