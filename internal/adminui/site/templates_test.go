package site

import (
	"io"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/stint-dev/stint/web"
)

// A page's templates are parsed when it is first shown, so a node would start with a
// page that has an error.
func TestPageTemplatesParse(t *testing.T) {
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	files, err := fs.Glob(web.Templates, "templates/*.html")
	if err != nil || len(files) < 30 {
		t.Fatal(len(files), err)
	}
	for _, file := range files {
		page, err := s.pages.named(strings.TrimSuffix(path.Base(file), ".html"))
		if err != nil {
			t.Error(err)
			continue
		}
		// Without data a template fails at its first field; escaping errors are reported before that.
		if err := page.ExecuteTemplate(io.Discard, "base", nil); err != nil && strings.Contains(err.Error(), "html/template:") {
			t.Error(err)
		}
	}
	if _, err := s.pages.named("no-such-page"); err == nil {
		t.Error("a page without a file was parsed")
	}
}
