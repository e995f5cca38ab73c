package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/stint-dev/stint/internal/buildinfo"
	"github.com/stint-dev/stint/internal/manual"
)

// TestEveryCommandHasAManualPage writes the pages of all commands and formats them with groff.
func TestEveryCommandHasAManualPage(t *testing.T) {
	folder := t.TempDir()
	root := rootOf("stint-admin")
	root.SetArgs([]string{"man", folder})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.1"))
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{}
	for _, page := range strings.Split(formatted(t, files...), "(1) NAME ")[1:] {
		name, _, _ := strings.Cut(page, " ")
		pages[name] = page
	}
	for _, c := range commands(root) {
		if c.Hidden || c.Name() == "help" {
			continue
		}
		page := pages[strings.ReplaceAll(c.CommandPath(), " ", "-")]
		want := []string{c.Short, "SYNOPSIS", c.UseLine()}
		c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && f.Name != "version" && !f.Hidden {
				want = append(want, "--"+f.Name)
			}
		})
		for _, w := range append(want, strings.Split(c.Example, "\n")...) {
			if !strings.Contains(page, strings.Join(strings.Fields(w), " ")) {
				t.Errorf("the page of %s does not say %q: %q", c.CommandPath(), w, page)
			}
		}
	}
}

// TestManualShowsTextAsWritten writes what would be requests and escapes of roff.
func TestManualShowsTextAsWritten(t *testing.T) {
	const odd = `.so /etc/passwd 'x' \fBbold\fR "quoted" ^~` + "`ip:*`"
	path := filepath.Join(t.TempDir(), "odd.1")
	var page bytes.Buffer
	if err := (manual.Page{Name: "odd", Section: 1, Short: odd, Sections: []manual.Section{
		{Head: "Text", Text: odd + "\n" + odd + "\n\n  kept\n" + odd}, {Head: "Lines", Lines: odd},
	}}).Write(&page, buildinfo.Read()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, page.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	text := formatted(t, path)
	if got := strings.Count(text, odd); got != 5 {
		t.Errorf("the page shows the text %d times, want 5:\n%s", got, text)
	}
}

// formatted returns what manual pages show, with one space between words.
func formatted(t *testing.T, paths ...string) string {
	t.Helper()
	var problems bytes.Buffer
	groff := exec.Command("groff", append([]string{"-man", "-ww", "-Tascii", "-P-cbou", "-rLL=1000n", "-dAD=l"}, paths...)...)
	groff.Stderr = &problems
	text, err := groff.Output()
	if err != nil || problems.Len() > 0 {
		t.Fatalf("groff: %v: %s", err, problems.String())
	}
	return strings.Join(strings.Fields(string(text)), " ")
}
