package client_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const document = "../docs/CLIENT.md"

var (
	programs = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")
	output   = regexp.MustCompile(`(?s)\t// Output:.*`)
)

// bodies returns the text between the braces of each function whose name
// begins with prefix, without the output that an example promises.
func bodies(t *testing.T, name string, text []byte, prefix string) map[string]string {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, declared := range file.Decls {
		f, isFunc := declared.(*ast.FuncDecl)
		if isFunc && strings.HasPrefix(f.Name.Name, prefix) {
			body := text[files.Position(f.Body.Lbrace).Offset+1 : files.Position(f.Body.Rbrace).Offset]
			found[f.Name.Name] = strings.TrimSpace(output.ReplaceAllString(string(body), ""))
		}
	}
	return found
}

// The examples run as tests. The programs of the document contain the same
// code, and compile.
func TestDocumentedProgramsAreExamples(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	examples := map[string]bool{}
	for _, path := range []string{"example_test.go", "fibermw/example_test.go"} {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, body := range bodies(t, path, source, "Example") {
			examples[body] = true
		}
	}
	written := programs.FindAllSubmatch(text, -1)
	if len(written) == 0 {
		t.Fatal("docs/CLIENT.md has no Go program")
	}
	for i, program := range written {
		if main := bodies(t, document, program[1], "main")["main"]; !examples[main] {
			t.Errorf("docs/CLIENT.md: this program is not the body of an example:\n%s", main)
		}
		path := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(path, program[1], 0o600); err != nil {
			t.Fatal(err)
		}
		vet := exec.Command("go", "vet", path)
		vet.Dir = ".."
		if vetOutput, err := vet.CombinedOutput(); err != nil {
			t.Errorf("docs/CLIENT.md: go vet of program %d: %v\n%s", i+1, err, vetOutput)
		}
	}
}
