package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// output runs a command and returns what it writes.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	text, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, text)
	}
	return string(text)
}

// find returns the only file of a folder with this end of the name.
func find(t *testing.T, dir, end string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*"+end))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: found %v, %v", end, found, err)
	}
	return found[0]
}

var built = flag.String("built", "", "install the release in this folder instead of building one twice")

// TestRelease builds the release of the last commit twice, in two folders, and installs
// it. It needs root, for dpkg and for the root of the image.
func TestRelease(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("run it as root: dpkg and chroot need it")
	}
	outs := [2]string{*built, *built}
	document, err := os.ReadFile("../../docs/INSTALL.md")
	if err != nil {
		t.Fatal(err)
	}
	for i := range outs {
		if *built != "" {
			break
		}
		// Folders of different lengths: no file may depend on where it was built.
		t.Setenv("TMPDIR", t.TempDir()+strings.Repeat("/temporary", i))
		if err := os.MkdirAll(os.Getenv("TMPDIR"), 0o755); err != nil {
			t.Fatal(err)
		}
		outs[i] = filepath.Join(t.TempDir(), "dist")
		r := &release{root: "../..", out: outs[i]}
		if err := r.build(t.Context(), []string{"linux/amd64"}); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("INSTALL.md names the files", func(t *testing.T) {
		for _, end := range []string{"_linux_amd64.tar.gz", "-1_amd64.deb", "-1.x86_64.rpm", "_oci.tar"} {
			find(t, outs[0], end)
			if !bytes.Contains(document, []byte("1.2.3"+end+"`")) {
				t.Errorf("docs/INSTALL.md has no file whose name ends with %s", end)
			}
		}
	})
	t.Run("two builds are equal", func(t *testing.T) { compare(t, outs[0], outs[1]) })
	t.Run("archive", func(t *testing.T) { testArchive(t, outs[0]) })
	t.Run("help", func(t *testing.T) { testHelp(t, outs[0]) })
	t.Run("deb", func(t *testing.T) { testDeb(t, outs[0]) })
	t.Run("systemd", func(t *testing.T) { testSystemd(t, outs[0]) })
	t.Run("image", func(t *testing.T) { testImage(t, outs[0]) })
	t.Run("checksums", func(t *testing.T) {
		sum := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
		sum.Dir = outs[0]
		if text, err := sum.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, text)
		}
	})
}

func TestCheckNamedNeedsAChangelogSectionAndTheImage(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("CHANGELOG.md", "# Changelog\n\n## [1.2.3] - 2026-11-23\n")
	write("deploy/helm/stint/Chart.yaml", "version: 1.0.0\nappVersion: \"1.2.3\"\n")
	write("deploy/compose/compose.yaml", "x-node: &node\n  image: ${STINT_IMAGE:-ghcr.io/stint-dev/stint:1.2.3}\n")
	for version, has := range map[string]bool{
		"1.2.3": true, "1.2": false, "1.2.4": false, "1.3.0-rc.1": false, "0.0.0-20261123035500-60b28a85b85d": true, "1.2.4-0.20261120100000-3f2a9c41d07b+dirty": true,
	} {
		if err := (&release{root: root, version: version}).checkNamed(); (err == nil) != has {
			t.Errorf("checkNamed of %s: got %v", version, err)
		}
	}
	write("deploy/compose/compose.yaml", "x-node: &node\n  image: ${STINT_IMAGE:-ghcr.io/stint-dev/stint:latest}\n")
	if (&release{root: root, version: "1.2.3"}).checkNamed() == nil {
		t.Error("checkNamed accepts a compose file with another image")
	}
}

func compare(t *testing.T, a, b string) {
	names, err := os.ReadDir(a)
	if err != nil {
		t.Fatal(err)
	}
	if others, err := os.ReadDir(b); err != nil || len(others) != len(names) || len(names) < 7 {
		t.Fatalf("%d and %d files, want 7 or more: %v", len(names), len(others), err)
	}
	for _, name := range names {
		first, err := os.ReadFile(filepath.Join(a, name.Name()))
		if err != nil {
			t.Fatal(err)
		}
		second, err := os.ReadFile(filepath.Join(b, name.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first, second) {
			t.Errorf("%s differs", name.Name())
		}
	}
}

// unpack writes the files of a tar below a folder.
func unpack(t *testing.T, from io.Reader, to string) {
	t.Helper()
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(to, filepath.Clean("/"+h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			var content []byte
			if content, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, content, 0o600)
			}
		}
		if err == nil {
			err = os.Chown(path, h.Uid, h.Gid)
		}
		if err == nil {
			err = os.Chmod(path, h.FileInfo().Mode())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// wantProgram fails the test unless a script is executable for all users, and prints how it is
// used.
func wantProgram(t *testing.T, path string) {
	t.Helper()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o755 {
		t.Fatalf("%s: %v, %v", path, info, err)
	}
	text, err := exec.Command(path).CombinedOutput()
	if code := (*exec.ExitError)(nil); !errors.As(err, &code) || code.ExitCode() != 2 || !strings.HasPrefix(string(text), "usage: ") {
		t.Errorf("%s without arguments: got %v: %s, want exit code 2 and its usage", path, err, text)
	}
}

func testArchive(t *testing.T, out string) {
	file, err := os.Open(find(t, out, "_linux_amd64.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	unpack(t, text, dir)
	top := find(t, dir, "_linux_amd64")
	for _, name := range []string{"deploy/stint.example.yaml", "deploy/systemd/stint.socket", "deploy/prometheus/stint.rules.yaml", "deploy/haproxy/stint.lua"} {
		if _, err := os.Stat(filepath.Join(top, name)); err != nil {
			t.Error(err)
		}
	}
	wantHelp(t, top, filepath.Join(top, "man"), map[string]string{
		filepath.Join(top, "completions/stint-admin"):      "complete -o default -F __start_stint-admin stint-admin",
		filepath.Join(top, "completions/_stint-admin"):     "#compdef stint-admin",
		filepath.Join(top, "completions/stint-admin.fish"): "complete -c stint-admin",
		filepath.Join(top, "LICENSE"):                      "MIT License",
	}, "")
	wantProgram(t, filepath.Join(top, "deploy/backup/stint-backup"))
	head := strings.TrimSpace(output(t, "git", "rev-parse", "--short=12", "HEAD"))
	if got := output(t, filepath.Join(top, "stint-server"), "--version"); !strings.Contains(got, head) || !strings.HasPrefix(got, "stint v") {
		t.Errorf("got %s, want commit %s", got, head)
	}
	if got := output(t, "go", "version", "-m", filepath.Join(top, "stint-server")); !strings.Contains(got, "\t-pgo=release.pgo\n") {
		t.Errorf("stint-server was built without the profile: %s", got)
	}
	if got := output(t, filepath.Join(top, "stint-admin"), "version"); !strings.Contains(got, head) {
		t.Errorf("got %s, want commit %s", got, head)
	}
	if text, err := os.ReadFile(find(t, out, "stint-server*.cdx.json")); err != nil || !json.Valid(text) || !bytes.Contains(text, []byte(`"github.com/gofiber/fiber/v2"`)) {
		t.Errorf("the bill of materials: %v", err)
	}
}

// testDeb installs the package into a new root, which has only users.
func testDeb(t *testing.T, out string) {
	root := t.TempDir()
	for _, dir := range []string{"etc", "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:\n", "var/lib/dpkg/status": "", "var/lib/dpkg/available": "",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	dpkg := []string{"--root=" + root, "--force-not-root", "--force-script-chrootless", "--force-architecture"}
	if text := output(t, "dpkg", append(dpkg, "--install", find(t, out, ".deb"))...); !strings.Contains(text, "systemctl enable --now stint") {
		t.Errorf("the first installation does not say what starts the node: %s", text)
	}
	if status := output(t, "dpkg-query", "--admindir="+filepath.Join(root, "var/lib/dpkg"), "--show", "--showformat=${Status}", "stint"); status != "install ok installed" {
		t.Errorf("the package is %s", status)
	}
	users, err := os.ReadFile(filepath.Join(root, "etc/passwd"))
	if err != nil || !strings.Contains(string(users), "\nstint:") {
		t.Errorf("there is no user stint: %s, %v", users, err)
	}
	data, err := os.Stat(filepath.Join(root, "var/lib/stint"))
	if err != nil {
		t.Fatal(err)
	}
	if data.Mode().Perm() != 0o700 || data.Sys().(*syscall.Stat_t).Uid == 0 {
		t.Errorf("the data folder has mode %o and the owner %d", data.Mode().Perm(), data.Sys().(*syscall.Stat_t).Uid)
	}
	config := filepath.Join(root, "etc/stint/stint.yaml")
	settings, err := os.Stat(config)
	if err != nil {
		t.Fatal(err)
	}
	if s := settings.Sys().(*syscall.Stat_t); settings.Mode().Perm() != 0o640 || s.Uid != 0 || s.Gid != data.Sys().(*syscall.Stat_t).Gid {
		t.Errorf("the settings have mode %o, the owner %d and the group %d", settings.Mode().Perm(), s.Uid, s.Gid)
	}
	output(t, filepath.Join(root, "usr/bin/stint-server"), "config", "check", config)
	// An upgrade keeps the settings that the operator changed, and asks nothing: the package has the same, whatever the example says.
	if text, err := os.ReadFile(config); err != nil || len(text) > 1000 || !bytes.Contains(text, []byte("\ndata-dir: /var/lib/stint\n")) {
		t.Errorf("the settings of the package are %s, %v", text, err)
	}
	output(t, filepath.Join(root, "usr/bin/stint-server"), "config", "check", filepath.Join(root, "usr/share/stint/stint.example.yaml"))
	if err := os.WriteFile(config, []byte("log-level: debug\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if text := output(t, "dpkg", append(dpkg, "--install", find(t, out, ".deb"))...); strings.Contains(text, "systemctl enable") {
		t.Errorf("an upgrade asks to start the node: %s", text)
	}
	if text, err := os.ReadFile(config); err != nil || string(text) != "log-level: debug\n" {
		t.Errorf("the settings are %s, %v", text, err)
	}
	wantProgram(t, filepath.Join(root, "usr/bin/stint-backup"))
	for _, name := range []string{"haproxy/stint.lua", "fail2ban/stint.conf", "prometheus/stint.rules.yaml", "grafana/stint.json"} {
		if _, err := os.Stat(filepath.Join(root, "usr/share/stint", name)); err != nil {
			t.Error(err)
		}
	}
	// With the paths of the programs in this test, and everything else of the machine.
	units, verify := t.TempDir(), []string{"verify", "--man=no"}
	for _, name := range []string{"stint.socket", "stint.service", "stint-follow.service", "stint-firewall.service"} {
		unit := filepath.Join(root, "usr/lib/systemd/system", name)
		text, err := os.ReadFile(unit)
		if err != nil || bytes.Contains(text, []byte("/usr/local")) {
			t.Errorf("%s: %v: %s", name, err, text)
		}
		if strings.HasSuffix(name, ".service") {
			output(t, "systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", unit)
		}
		verify = append(verify, filepath.Join(units, name))
		if err := os.WriteFile(filepath.Join(units, name), bytes.ReplaceAll(text, []byte("/usr/bin/"), []byte(root+"/usr/bin/")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if text := output(t, "systemd-analyze", verify...); text != "" {
		t.Errorf("systemd-analyze verify: %s", text)
	}
	testUnitProc(t, root)
	testFirewallStarts(t, root)
	output(t, "dpkg", append(dpkg, "--remove", "stint")...)
	if _, err := os.Stat(filepath.Join(root, "usr/bin/stint-server")); !os.IsNotExist(err) {
		t.Errorf("after the removal the program still exists: %v", err)
	}
}

// testImage runs the image as its configuration says, on a root that is read-only.
func testImage(t *testing.T, out string) {
	file, err := os.Open(find(t, out, "_oci.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	dir, root := t.TempDir(), t.TempDir()
	unpack(t, file, dir)
	image := imageOf(t, dir)
	content := mutate.Extract(image)
	defer content.Close()
	unpack(t, content, root)
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	described, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if described.Config.User != "65532:65532" || strings.Join(described.Config.Healthcheck.Test, " ") != "CMD /usr/bin/stint-server health" {
		t.Errorf("got %+v", described.Config)
	}
	if roots, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt")); err != nil || bytes.Count(roots, []byte("BEGIN CERTIFICATE")) < 50 {
		t.Errorf("the image has fewer than 50 certificates: %v", err)
	}
	admin := freeAddress(t)
	environ := append(described.Config.Env, "STINT_LISTEN="+freeAddress(t), "STINT_ADMIN_LISTEN="+admin, "STINT_ADMIN_URL=http://"+admin, "STINT_ADMIN_TOKEN="+rand.Text()+rand.Text())
	if err := os.WriteFile(filepath.Join(root, "blocks.txt"), []byte("192.0.2.1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	// In a mount namespace of its own, everything but the volume is read-only.
	const script = `set -e
mount --make-rprivate /
mount --bind "$0" "$0"
mount --bind "$0/var/lib/stint" "$0/var/lib/stint"
mount -o remount,ro,bind "$0"
exec chroot --userspec=65532:65532 "$0" "$@"`
	run := func(args ...string) *exec.Cmd {
		c := exec.Command("unshare", append([]string{"--mount", "sh", "-c", script, root}, args...)...)
		c.Env = append(environ, "PATH=/usr/bin:/usr/sbin:/bin:/sbin")
		return c
	}
	var log bytes.Buffer
	node := run(described.Config.Entrypoint...)
	node.Stdout, node.Stderr = &log, &log
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- node.Wait() }()
	healthy := false
	for end := time.Now().Add(time.Minute); !healthy && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		healthy = run(described.Config.Healthcheck.Test[1:]...).Run() == nil
	}
	// An import needs a temporary file.
	if text, err := run("/usr/bin/stint-admin", "block", "import", "/blocks.txt", "--reason", "test").CombinedOutput(); err != nil {
		t.Errorf("an import: %v\n%s", err, text)
	}
	if err := node.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil || !healthy {
		t.Errorf("healthy: %v, the node ended with %v:\n%s", healthy, err, log.String())
	}
	if data, err := os.ReadDir(filepath.Join(root, "var/lib/stint")); err != nil || len(data) == 0 {
		t.Errorf("the volume is empty: %v", err)
	}
}

// imageOf returns the one image of an OCI layout.
func imageOf(t *testing.T, dir string) v1.Image {
	t.Helper()
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := top.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("got %+v, %v", manifest, err)
	}
	index, err := top.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if manifest, err = index.IndexManifest(); err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("got %+v, %v", manifest, err)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return image
}
