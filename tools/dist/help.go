package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/goreleaser/nfpm/v2/files"
)

// completions are the scripts that complete the words of stint-admin, and where the packages have
// them.
var completions = []struct{ shell, deb, rpm string }{
	{"bash", "/usr/share/bash-completion/completions/stint-admin", "/usr/share/bash-completion/completions/stint-admin"},
	{"zsh", "/usr/share/zsh/vendor-completions/_stint-admin", "/usr/share/zsh/site-functions/_stint-admin"},
	{"fish", "/usr/share/fish/vendor_completions.d/stint-admin.fish", "/usr/share/fish/vendor_completions.d/stint-admin.fish"},
}

// writeHelp has the programs, built for this machine, write their manual pages and completions.
func (r *release) writeHelp(ctx context.Context, temporary string) error {
	programs := filepath.Join(temporary, "own")
	if err := r.compile(ctx, platform{runtime.GOOS, runtime.GOARCH}, programs); err != nil {
		return err
	}
	r.helpFolder = filepath.Join(temporary, "help")
	write := func(to, program string, args ...string) error {
		file := filepath.Join(r.helpFolder, to)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		c := exec.CommandContext(ctx, filepath.Join(programs, program), args...)
		c.Stderr = os.Stderr
		text, err := c.Output()
		if err != nil {
			return err
		}
		return os.WriteFile(file, text, 0o644)
	}
	for _, c := range completions {
		if err := write(c.shell, "stint-admin", "completion", c.shell); err != nil {
			return err
		}
	}
	if err := write("man/man8/stint-server.8", "stint-server", "man"); err != nil {
		return err
	}
	all := exec.CommandContext(ctx, filepath.Join(programs, "stint-admin"), "man", filepath.Join(r.helpFolder, "man", "man1"))
	all.Stderr = os.Stderr
	if err := all.Run(); err != nil {
		return err
	}
	found, err := filepath.Glob(filepath.Join(r.helpFolder, "man", "*", "*"))
	for _, file := range found {
		name, err := filepath.Rel(r.helpFolder, file)
		if err != nil {
			return err
		}
		r.manuals = append(r.manuals, filepath.ToSlash(name))
	}
	return err
}

// helpFiles returns the documents, manual pages and completions of a package of a format. It
// writes the compressed pages into a folder.
func (r *release) helpFiles(format, dir string) (all files.Contents, err error) {
	add := func(from, to string) {
		all = append(all, &files.Content{Source: from, Destination: to, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: 0o644, MTime: r.date}})
	}
	documents, err := r.documents()
	if err != nil {
		return nil, err
	}
	for _, name := range documents {
		add(r.path(name), "/usr/share/doc/stint/"+name)
	}
	for _, name := range r.manuals {
		text, err := os.ReadFile(filepath.Join(r.helpFolder, name))
		if err != nil {
			return nil, err
		}
		var out bytes.Buffer
		w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is valid; the header has no time
		if _, err := w.Write(text); err != nil {
			return nil, err
		}
		if err := w.Close(); err != nil {
			return nil, err
		}
		compressed := filepath.Join(dir, filepath.Base(name)+".gz")
		if err := os.WriteFile(compressed, out.Bytes(), 0o644); err != nil {
			return nil, err
		}
		add(compressed, "/usr/share/"+name+".gz")
	}
	for _, c := range completions {
		to := c.deb
		if format == "rpm" {
			to = c.rpm
		}
		add(filepath.Join(r.helpFolder, c.shell), to)
	}
	return all, nil
}
