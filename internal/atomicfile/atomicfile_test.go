package atomicfile_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stint-dev/stint/internal/atomicfile"
)

func writes(text string) func(*os.File) error {
	return func(file *os.File) error {
		_, err := file.WriteString(text)
		return err
	}
}

// wantFiles checks the names and the contents of all files of a folder.
func wantFiles(t *testing.T, folder string, want ...string) {
	t.Helper()
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(folder, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, f.Name()+"="+string(text))
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the folder has %q, want %q", got, want)
	}
}

func TestWriteReplacesTheFileAndItsMode(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "a")
	for text, mode := range map[string]fs.FileMode{"private": 0o600, "for all": 0o644} {
		if err := atomicfile.Write(path, mode, writes(text)); err != nil {
			t.Fatal(err)
		}
		wantFiles(t, folder, "a="+text)
		info, err := os.Stat(path)
		if err != nil || info.Mode() != mode {
			t.Errorf("Write: got the mode %v, want %v, %v", info.Mode(), mode, err)
		}
	}
}

func TestWriteAcceptsABareFileName(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := atomicfile.Write("a", 0o600, writes("x")); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, ".", "a=x")
}

func TestFailedWriteLeavesOnlyTheOldFile(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "a")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := atomicfile.Write(path, 0o600, func(file *os.File) error {
		_, _ = file.WriteString("half")
		return io.ErrUnexpectedEOF
	})
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("Write: got %v", err)
	}
	wantFiles(t, folder, "a=old")
	if err := atomicfile.Write(filepath.Join(folder, "none", "a"), 0o600, writes("x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Write into a missing folder: got %v", err)
	}
	existing := filepath.Join(folder, "b")
	if err := os.MkdirAll(filepath.Join(existing, "c"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(existing, 0o600, writes("x")); err == nil {
		t.Error("Write over a folder: got no error")
	}
	if err := os.RemoveAll(existing); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, folder, "a=old")
}

func TestConcurrentWritesLeaveOneCompleteFile(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "a")
	var all sync.WaitGroup
	for _, c := range "abcdefgh" {
		all.Go(func() {
			if err := atomicfile.Write(path, 0o600, writes(strings.Repeat(string(c), 1<<16))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	text, err := os.ReadFile(path)
	if err != nil || len(text) != 1<<16 || strings.Count(string(text), string(text[:1])) != 1<<16 {
		t.Errorf("got %d bytes, %v, want 64 KiB of one letter", len(text), err)
	}
	if files, err := os.ReadDir(folder); err != nil || len(files) != 1 {
		t.Errorf("got %d files, %v, want 1", len(files), err)
	}
}

func TestRemoveLeftoversKeepsOtherFiles(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{".a-1", ".a-22", ".a-x", ".b-1", "a", "a-1", ".ab-1"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The temporary file of Write matches Leftovers.
	err := atomicfile.Write(filepath.Join(folder, "a"), 0o600, func(file *os.File) error {
		if !atomicfile.Leftovers("a").MatchString(filepath.Base(file.Name())) {
			t.Errorf("Leftovers does not match %s", file.Name())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	atomicfile.RemoveLeftovers(filepath.Join(folder, "a"))
	atomicfile.RemoveLeftovers(filepath.Join(folder, "none", "a"))
	wantFiles(t, folder, ".a-x=", ".ab-1=", ".b-1=", "a=", "a-1=")
}

func TestUnnamedLeavesNoFile(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	file, err := atomicfile.Unnamed()
	if err != nil {
		t.Fatal(err)
	}
	wantFiles(t, folder)
	if _, err := file.WriteString("x"); err != nil {
		t.Error(err)
	}
	if err := file.Close(); err != nil {
		t.Error(err)
	}
}
