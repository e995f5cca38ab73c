package console_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stint-dev/stint/internal/cli/console"
)

// toStdout returns a console whose standard output is a file, and the path of the file.
func toStdout(t *testing.T, dir string) (*console.Console, string) {
	t.Helper()
	path := filepath.Join(dir, "stdout")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return &console.Console{System: console.System{Stdout: file}}, path
}

func write(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

func wantText(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s holds %q, %v, want %q", filepath.Base(path), got, err, want)
	}
}

func TestWriteFileWritesToStandardOutput(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	con, stdout := toStdout(t, dir)
	link := filepath.Join(dir, "link")
	if err := os.Symlink(stdout, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"-", stdout, link} {
		if err := con.WriteFile(t.Context(), path, 0o644, write(filepath.Base(path)+" ")); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	wantText(t, stdout, "- stdout link ")
	if _, err := os.Stat("-"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("WriteFile made a file named -: %v", err)
	}
}

func TestWriteFileFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	con, _ := toStdout(t, dir)
	for _, folder := range []string{"real/deep", "links"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"links/new": "../real/new", "links/old": "../links/second", "links/second": filepath.Join(dir, "real/old"),
		"links/folder": "../real/deep", "links/up": "folder/../up", "links/loop": "loop",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "real/old"), []byte("before"), 0o644); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"links/new": "real/new", "links/old": "real/old", "links/up": "real/up"} {
		if err := con.WriteFile(t.Context(), filepath.Join(dir, link), 0o600, write(link)); err != nil {
			t.Errorf("%s: %v", link, err)
		}
		wantText(t, filepath.Join(dir, target), link)
		if info, err := os.Lstat(filepath.Join(dir, link)); err != nil || info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("WriteFile replaced the link %s: %v, %v", link, info, err)
		}
	}
	if err := con.WriteFile(t.Context(), filepath.Join(dir, "links/loop"), 0o600, write("")); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("WriteFile to a loop of links: got %v, want ELOOP", err)
	}
}

func TestWriteFileWritesThroughAPipe(t *testing.T) {
	dir := t.TempDir()
	con, _ := toStdout(t, dir)
	pipe, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Symlink(pipe, link)); err != nil {
		t.Fatal(err)
	}
	got := make(chan string)
	go func() {
		text, err := os.ReadFile(link)
		got <- string(text)
		if err != nil {
			t.Error(err)
		}
	}()
	if err := con.WriteFile(t.Context(), link, 0o600, write("report")); err != nil {
		t.Error(err)
	}
	if text := <-got; text != "report" {
		t.Errorf("the reader of the pipe got %q, want report", text)
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
		t.Errorf("WriteFile replaced the pipe: %v, %v", info, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := con.WriteFile(ctx, pipe, 0o600, write("")); !errors.Is(err, context.Canceled) {
		t.Errorf("WriteFile to a pipe without a reader, cancelled: got %v", err)
	}
}

func TestWriteFileKeepsTheOldFileIfWritingFails(t *testing.T) {
	dir := t.TempDir()
	con, _ := toStdout(t, dir)
	path := filepath.Join(dir, "report")
	if err := con.WriteFile(t.Context(), path, 0o600, write("whole")); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("failed")
	err := con.WriteFile(t.Context(), path, 0o600, func(w io.Writer) error { return errors.Join(write("half")(w), failed) })
	if !errors.Is(err, failed) {
		t.Errorf("WriteFile with a failing writer: got %v", err)
	}
	wantText(t, path, "whole")
	if left, err := filepath.Glob(filepath.Join(dir, ".stint-*")); err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
	var exit *console.ExitError
	if err := con.WriteFile(t.Context(), dir, 0o600, write("")); !errors.As(err, &exit) || exit.Code != console.Usage {
		t.Errorf("WriteFile to a directory: got %v, want a usage error", err)
	}
	if err := con.WriteFile(t.Context(), filepath.Join(dir, "none", "report"), 0o600, write("")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("WriteFile into a missing directory: got %v", err)
	}
}
