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
	"os"
	"os/exec"
	"path/filepath"

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

// archive writes the programs with their license, changes and examples.
func (r *release) archive(p platform, dir string) error {
	name := fmt.Sprintf("stint_%s_%s_%s", r.version, p.os, p.arch)
	entries := []entry{{name: name + "/", mode: 0o755}}
	sources := []struct {
		from, to string
		mode     int64
	}{
		{filepath.Join(dir, "stint-server"), "stint-server", 0o755}, {filepath.Join(dir, "stint-admin"), "stint-admin", 0o755},
		{r.path("LICENSE"), "LICENSE", 0o644}, {r.path("README.md"), "README.md", 0o644}, {r.path("CHANGELOG.md"), "CHANGELOG.md", 0o644},
		{r.path("deploy/stint.example.yaml"), "stint.example.yaml", 0o644}, {r.path("deploy/systemd/stint.service"), "stint.service", 0o644}, {r.path("deploy/systemd/stint.socket"), "stint.socket", 0o644},
	}
	for _, s := range sources {
		content, err := os.ReadFile(s.from)
		if err != nil {
			return err
		}
		entries = append(entries, entry{name: name + "/" + s.to, mode: s.mode, content: content})
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
	config, err := r.packageConfig(dir)
	if err != nil {
		return err
	}
	file := func(from, to, kind string, mode os.FileMode) *files.Content {
		return &files.Content{Source: from, Destination: to, Type: kind, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.date}}
	}
	for _, format := range []string{"deb", "rpm"} {
		info := nfpm.WithDefaults(&nfpm.Info{
			Name: "stint", Arch: p.arch, Platform: "linux", Version: r.version, Release: "1", MTime: r.date,
			Section: "net", Priority: "optional", Maintainer: "The Stint authors <stint@stint.dev>", Vendor: "Stint",
			Description: "Detects abuse and blocks it: exact rate limits, blocks and escalation.",
			Homepage:    "https://github.com/stint-dev/stint", License: "MIT", DisableGlobbing: true,
			Overridables: nfpm.Overridables{
				Umask: 0o022, RPM: nfpm.RPM{BuildHost: "stint"},
				Scripts: nfpm.Scripts{PostInstall: r.path("deploy/packages/postinst"), PreRemove: r.path("deploy/packages/prerm")},
				Contents: files.Contents{
					file(filepath.Join(dir, "stint-server"), "/usr/bin/stint-server", "", 0o755),
					file(filepath.Join(dir, "stint-admin"), "/usr/bin/stint-admin", "", 0o755),
					file(config, "/etc/stint/stint.yaml", "config|noreplace", 0o640),
					file(r.path("deploy/systemd/stint.service"), "/usr/lib/systemd/system/stint.service", "", 0o644),
					file(r.path("deploy/systemd/stint.socket"), "/usr/lib/systemd/system/stint.socket", "", 0o644),
					file(r.path("deploy/systemd/sysusers.conf"), "/usr/lib/sysusers.d/stint.conf", "", 0o644),
					file(r.path("LICENSE"), "/usr/share/doc/stint/copyright", "", 0o644),
					file(r.path("CHANGELOG.md"), "/usr/share/doc/stint/CHANGELOG.md", "", 0o644),
				},
			},
		})
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

// packageConfig writes the settings file of the packages: the example, with the data in
// the folder of the unit. It returns its path.
func (r *release) packageConfig(dir string) (string, error) {
	example, err := os.ReadFile(r.path("deploy/stint.example.yaml"))
	if err != nil {
		return "", err
	}
	const line = "\n#data-dir: ./data\n"
	if !bytes.Contains(example, []byte(line)) {
		return "", errors.New("deploy/stint.example.yaml has no data-dir")
	}
	path := filepath.Join(dir, "stint.yaml")
	return path, os.WriteFile(path, bytes.Replace(example, []byte(line), []byte("\ndata-dir: /var/lib/stint\n"), 1), 0o644)
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
