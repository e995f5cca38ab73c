package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"io"
	"net"
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

// find returns the one file of a folder whose name ends so.
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
	t.Run("two builds are equal", func(t *testing.T) { compare(t, outs[0], outs[1]) })
	t.Run("archive", func(t *testing.T) { testArchive(t, outs[0]) })
	t.Run("deb", func(t *testing.T) { testDeb(t, outs[0]) })
	t.Run("image", func(t *testing.T) { testImage(t, outs[0]) })
	t.Run("checksums", func(t *testing.T) {
		sum := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
		sum.Dir = outs[0]
		if text, err := sum.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, text)
		}
	})
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
	head := strings.TrimSpace(output(t, "git", "rev-parse", "--short=12", "HEAD"))
	if got := output(t, filepath.Join(top, "stint-server"), "--version"); !strings.Contains(got, head) || !strings.HasPrefix(got, "stint v") {
		t.Errorf("got %s, want commit %s", got, head)
	}
	if got := output(t, filepath.Join(top, "stint-admin"), "version"); !strings.Contains(got, head) {
		t.Errorf("got %s, want commit %s", got, head)
	}
	if text, err := os.ReadFile(find(t, out, "stint-server*.cdx.json")); err != nil || !json.Valid(text) || !bytes.Contains(text, []byte(`"github.com/gofiber/fiber/v2"`)) {
		t.Errorf("the bill of materials: %v", err)
	}
}

// testDeb installs the package into a root of its own, which has users and nothing else.
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
	output(t, "dpkg", append(dpkg, "--install", find(t, out, ".deb"))...)
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
	// What the operator changed stays through an upgrade.
	if err := os.WriteFile(config, []byte("log-level: debug\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	output(t, "dpkg", append(dpkg, "--force-confold", "--install", find(t, out, ".deb"))...)
	if text, err := os.ReadFile(config); err != nil || string(text) != "log-level: debug\n" {
		t.Errorf("the settings are %s, %v", text, err)
	}
	unit := filepath.Join(root, "usr/lib/systemd/system/stint.service")
	if _, err := exec.LookPath("systemd-analyze"); err == nil {
		output(t, "systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", unit)
	}
	output(t, "dpkg", append(dpkg, "--remove", "stint")...)
	if _, err := os.Stat(filepath.Join(root, "usr/bin/stint-server")); !os.IsNotExist(err) {
		t.Errorf("after its removal, the program is there: %v", err)
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
		t.Errorf("the image has few certificates: %v", err)
	}
	port := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return l.Addr().String()
	}
	environ := append(described.Config.Env, "STINT_LISTEN="+port(), "STINT_ADMIN_LISTEN="+port())
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
	if err := node.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil || !healthy {
		t.Errorf("healthy: %v, it ended with %v:\n%s", healthy, err, log.String())
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
