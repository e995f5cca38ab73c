package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// entry is a file of an archive, or a folder where it has no content.
type entry struct {
	name    string
	mode    int64
	owner   int // its number, and that of its group
	content []byte
}

// tarOf returns entries as a tar.
func (r *release) tarOf(entries []entry) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{
			Name: e.name, Mode: e.mode, Uid: e.owner, Gid: e.owner, Size: int64(len(e.content)), ModTime: r.date,
			Typeflag: tar.TypeReg, Format: tar.FormatPAX,
		}
		if e.content == nil {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// deployed returns the files below deploy that a release has, by their paths below it in
// order: all but what only builds packages.
func (r *release) deployed() (names []string, err error) {
	root := r.path("deploy")
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, file)
		if name = filepath.ToSlash(name); !strings.HasPrefix(name, "packages/") {
			names = append(names, name)
		}
		return err
	})
	return names, err
}

// modeOf returns the mode of a file of the checkout in a release, whatever the builder's
// umask is.
func modeOf(file string) (fs.FileMode, error) {
	info, err := os.Stat(file)
	if err != nil {
		return 0, err
	}
	if info.Mode()&0o100 != 0 {
		return 0o755, nil
	}
	return 0o644, nil
}

// documents returns the documents that a release has, by their paths in the checkout: their links
// to each other hold wherever the folder is.
func (r *release) documents() (names []string, err error) {
	names = []string{"README.md", "CHANGELOG.md", "SECURITY.md"}
	err = filepath.WalkDir(r.path("docs"), func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(file) == ".go" {
			return err
		}
		name, err := filepath.Rel(r.root, file)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	return names, err
}

// archive writes the programs with their license, documents, manual pages, completions, and what
// deploy has.
func (r *release) archive(p platform, dir string) error {
	name := fmt.Sprintf("stint_%s_%s_%s", r.version, p.os, p.arch)
	entries := []entry{{name: name + "/", mode: 0o755}}
	type source struct {
		from, to string
	}
	sources := []source{{filepath.Join(dir, "stint-server"), "stint-server"}, {filepath.Join(dir, "stint-admin"), "stint-admin"}, {r.path("LICENSE"), "LICENSE"}}
	documents, err := r.documents()
	if err != nil {
		return err
	}
	for _, file := range documents {
		sources = append(sources, source{r.path(file), file})
	}
	for _, file := range r.manuals {
		sources = append(sources, source{filepath.Join(r.helpFolder, file), file})
	}
	for _, c := range completions {
		sources = append(sources, source{filepath.Join(r.helpFolder, c.shell), "completions/" + path.Base(c.deb)})
	}
	deployed, err := r.deployed()
	if err != nil {
		return err
	}
	for _, file := range deployed {
		sources = append(sources, source{r.path("deploy/" + file), "deploy/" + file})
	}
	folders := map[string]bool{".": true}
	for _, s := range sources {
		content, err := os.ReadFile(s.from)
		if err != nil {
			return err
		}
		mode, err := modeOf(s.from)
		if err != nil {
			return err
		}
		var missing []entry
		for folder := path.Dir(s.to); !folders[folder]; folder = path.Dir(folder) {
			folders[folder] = true
			missing = append(missing, entry{name: name + "/" + folder + "/", mode: 0o755})
		}
		slices.Reverse(missing)
		entries = append(append(entries, missing...), entry{name: name + "/" + s.to, mode: int64(mode), content: content})
	}
	text, err := r.tarOf(entries)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is valid; the header has no time
	if _, err := w.Write(text); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, name+".tar.gz"), out.Bytes(), 0o644)
}

// packages writes the packages for Debian and Red Hat.
func (r *release) packages(p platform, dir string) error {
	shared, err := r.sharedFiles(dir)
	if err != nil {
		return err
	}
	file := func(from, to, kind string, mode os.FileMode) *files.Content {
		return &files.Content{Source: from, Destination: to, Type: kind, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.date}}
	}
	for _, format := range []string{"deb", "rpm"} {
		help, err := r.helpFiles(format, dir)
		if err != nil {
			return err
		}
		info := nfpm.WithDefaults(&nfpm.Info{
			Name: "stint", Arch: p.arch, Platform: "linux", Version: r.version, Release: "1", MTime: r.date,
			Section: "net", Priority: "optional", Maintainer: "The Stint authors <stint@stint.dev>", Vendor: "Stint",
			Description: "Detects abuse and blocks it: exact rate limits, blocks and escalation.",
			Homepage:    "https://github.com/stint-dev/stint", License: "MIT", DisableGlobbing: true,
			Overridables: nfpm.Overridables{
				Umask: 0o022, RPM: nfpm.RPM{BuildHost: "stint"},
				Scripts: nfpm.Scripts{PostInstall: r.path("deploy/packages/postinst"), PreRemove: r.path("deploy/packages/prerm")},
				Contents: append(files.Contents{
					file(filepath.Join(dir, "stint-server"), "/usr/bin/stint-server", "", 0o755),
					file(filepath.Join(dir, "stint-admin"), "/usr/bin/stint-admin", "", 0o755),
					// Not the example, which changes with every version: dpkg would ask about it in each upgrade.
					file(r.path("deploy/packages/stint.yaml"), "/etc/stint/stint.yaml", "config|noreplace", 0o640),
					file(r.path("deploy/systemd/stint.service"), "/usr/lib/systemd/system/stint.service", "", 0o644),
					file(r.path("deploy/systemd/stint.socket"), "/usr/lib/systemd/system/stint.socket", "", 0o644),
					file(r.path("deploy/systemd/sysusers.conf"), "/usr/lib/sysusers.d/stint.conf", "", 0o644),
					file(r.path("LICENSE"), "/usr/share/doc/stint/copyright", "", 0o644),
					file(r.path("deploy/backup/stint-backup"), "/usr/bin/stint-backup", "", 0o755),
				}, slices.Concat(shared, help)...),
			},
		})
		info.Contents = append(info.Contents, folders(info.Contents)...)
		packager, err := nfpm.Get(format)
		if err != nil {
			return err
		}
		if err := nfpm.PrepareForPackager(info, format); err != nil {
			return err
		}
		out, err := os.Create(filepath.Join(r.out, packager.ConventionalFileName(info)))
		if err != nil {
			return err
		}
		if err := errors.Join(packager.Package(info, out), out.Close()); err != nil {
			return err
		}
	}
	return nil
}

// folders returns the folders that only this package has, so that they go with it: rpm leaves those that no
// package owns.
func folders(contents files.Contents) (all files.Contents) {
	seen := map[string]bool{}
	for _, c := range contents {
		for folder := path.Dir(c.Destination); !seen[folder] && slices.Contains(strings.Split(folder, "/"), "stint"); folder = path.Dir(folder) {
			seen[folder] = true
			all = append(all, &files.Content{Destination: folder, Type: files.TypeDir, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: 0o755, MTime: c.FileInfo.MTime}})
		}
	}
	return all
}

// sharedFiles returns what deploy has for other programs, below /usr/share/stint, and the units
// of follow and firewall, which start the program where the packages have it.
func (r *release) sharedFiles(dir string) (shared files.Contents, err error) {
	deployed, err := r.deployed()
	if err != nil {
		return nil, err
	}
	add := func(from, to string) error {
		mode, err := modeOf(from)
		shared = append(shared, &files.Content{Source: from, Destination: to, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.date}})
		return err
	}
	for _, name := range deployed {
		folder, _, _ := strings.Cut(name, "/")
		switch from := r.path("deploy/" + name); {
		case folder == "systemd" || folder == "backup": // packages has these
		case folder == "follow" || folder == "nftables":
			unit, err := os.ReadFile(from)
			if err != nil {
				return nil, err
			}
			changed := filepath.Join(dir, path.Base(name))
			if err := os.WriteFile(changed, bytes.ReplaceAll(unit, []byte("/usr/local/bin/"), []byte("/usr/bin/")), 0o644); err != nil {
				return nil, err
			}
			if err := add(changed, "/usr/lib/systemd/system/"+path.Base(name)); err != nil {
				return nil, err
			}
		default:
			if err := add(from, "/usr/share/stint/"+name); err != nil {
				return nil, err
			}
		}
	}
	return shared, nil
}

// billsOfMaterials writes a CycloneDX document for each program: exactly the modules
// that are linked into it.
func (r *release) billsOfMaterials(ctx context.Context, dir string) error {
	for _, program := range []string{"stint-server", "stint-admin"} {
		tool := exec.CommandContext(ctx, "go", "tool", "-modfile=tools/go.mod", "cyclonedx-gomod", "bin", "-json", "-std", "-licenses",
			"-version", "v"+r.version, filepath.Join(dir, program))
		tool.Dir = r.root
		var problems bytes.Buffer
		tool.Stderr = &problems
		text, err := tool.Output()
		if err != nil {
			_, _ = io.Copy(os.Stderr, &problems)
			return fmt.Errorf("the bill of materials of %s: %w", program, err)
		}
		var bill map[string]any
		if err := json.Unmarshal(text, &bill); err != nil {
			return err
		}
		delete(bill, "serialNumber") // random
		if metadata, ok := bill["metadata"].(map[string]any); ok {
			metadata["timestamp"] = r.date.Format("2006-01-02T15:04:05Z")
			delete(metadata, "tools") // with the hash of the program that made the bill
		}
		if text, err = json.MarshalIndent(bill, "", " "); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.out, fmt.Sprintf("%s_%s.cdx.json", program, r.version)), append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}
