package cli

import (
	"html"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/stint-dev/stint/web"
)

var commandOfPage = regexp.MustCompile(`<code>stint-admin ([^<{]*)`)

// A user who is locked out depends on the command that a page names.
func TestCommandsNamedOnPagesExist(t *testing.T) {
	named := 0
	err := fs.WalkDir(web.Templates, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(web.Templates, path)
		if err != nil {
			return err
		}
		for _, match := range commandOfPage.FindAllStringSubmatch(string(text), -1) {
			named++
			args := strings.Fields(html.UnescapeString(match[1]))
			c, rest, err := testRoot().Find(args)
			if err != nil || c.Annotations[isGroup] != "" {
				t.Errorf("%s: there is no command stint-admin %s", path, match[1])
				continue
			}
			for _, arg := range rest {
				if name, flag := strings.CutPrefix(arg, "--"); flag && c.Flags().Lookup(name) == nil {
					t.Errorf("%s: admin %s has no flag --%s", path, c.CommandPath(), name)
				}
			}
		}
		return nil
	})
	if err != nil || named == 0 {
		t.Errorf("found %d commands on the pages: %v", named, err)
	}
}
