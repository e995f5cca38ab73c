package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// linkedDocument matches a link to a document of the folder docs.
var linkedDocument = regexp.MustCompile(`\]\(([A-Za-z0-9_./-]+\.(?:md|png|yaml))[)#]`)

// wantHelp fails the test unless a folder has the license, every document, with those that they
// link to in the folder docs, a manual page of every command, and the completions.
func wantHelp(t *testing.T, documents, manuals string, completions map[string]string, extension string) {
	t.Helper()
	var pages int
	for _, name := range []string{"README.md", "CHANGELOG.md", "docs/INSTALL.md", "docs/doors/nginx.md", "docs/images/overview.png"} {
		if _, err := os.Stat(filepath.Join(documents, name)); err != nil {
			t.Error(err)
		}
	}
	err := filepath.WalkDir(documents, func(file string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".md" {
			return err
		}
		pages++
		text, err := os.ReadFile(file)
		for _, link := range linkedDocument.FindAllSubmatch(text, -1) {
			to := filepath.Join(filepath.Dir(file), string(link[1]))
			if !strings.HasPrefix(to, filepath.Join(documents, "docs")) {
				continue // to the source
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
		return err
	})
	if err != nil || pages < 30 {
		t.Errorf("found %d documents, want 30 or more: %v", pages, err)
	}
	for name, want := range map[string]string{
		"man1/stint-admin.1": "Administer a Stint server", "man1/stint-admin-block-add.1": "on\\-conflict", "man8/stint-server.8": "admin\\-listen",
	} {
		text, err := os.ReadFile(filepath.Join(manuals, name+extension))
		if extension == ".gz" && err == nil {
			var r io.Reader
			if r, err = gzip.NewReader(bytes.NewReader(text)); err == nil {
				text, err = io.ReadAll(r)
			}
		}
		if err != nil || !bytes.HasPrefix(text, []byte(".TH ")) || !bytes.Contains(text, []byte(want)) {
			t.Errorf("%s: %v, want %s in %.200s", name, err, want, text)
		}
	}
	for file, want := range completions {
		if text, err := os.ReadFile(file); err != nil || !bytes.Contains(text, []byte(want)) {
			t.Errorf("%s: %v, want %s in %.200s", file, err, want, text)
		}
	}
}

// testHelp looks for the documents, manual pages and completions in what is installed.
func testHelp(t *testing.T, out string) {
	root := t.TempDir()
	output(t, "dpkg-deb", "--extract", find(t, out, ".deb"), root)
	share := filepath.Join(root, "usr/share")
	bash := filepath.Join(share, "bash-completion/completions/stint-admin")
	wantHelp(t, filepath.Join(share, "doc/stint"), filepath.Join(share, "man"), map[string]string{
		bash: "complete -o default -F __start_stint-admin stint-admin",
		filepath.Join(share, "zsh/vendor-completions/_stint-admin"):        "#compdef stint-admin",
		filepath.Join(share, "fish/vendor_completions.d/stint-admin.fish"): "complete -c stint-admin",
		filepath.Join(share, "doc/stint/copyright"):                        "MIT License",
	}, ".gz")
	output(t, "bash", "-n", bash)

	rpm, err := os.ReadFile(find(t, out, ".rpm"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{ // its header lists folders and names
		"/usr/share/doc/stint/docs/doors/", "nginx.md", "/usr/share/man/man1/", "stint-admin-block-add.1.gz", "/usr/share/man/man8/", "stint-server.8.gz",
		"/usr/share/bash-completion/completions/", "/usr/share/zsh/site-functions/", "_stint-admin", "/usr/share/fish/vendor_completions.d/", "stint-admin.fish",
	} {
		if !bytes.Contains(rpm, []byte("\x00"+name+"\x00")) {
			t.Errorf("the rpm has no %s", name)
		}
	}
}
