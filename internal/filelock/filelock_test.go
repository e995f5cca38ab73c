package filelock_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stint-dev/stint/internal/filelock"
)

func TestLockIsExclusiveUntilTheFileIsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		t.Helper()
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { file.Close() })
		return file
	}
	first, second := open(), open()
	if err := filelock.Lock(first); err != nil {
		t.Fatal(err)
	}
	if err := filelock.Lock(second); !errors.Is(err, filelock.ErrLocked) {
		t.Errorf("Lock of a locked file: got %v, want ErrLocked", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := filelock.Lock(second); err != nil {
		t.Errorf("Lock after the first was closed: got %v", err)
	}
	if err := filelock.Lock(first); err == nil || errors.Is(err, filelock.ErrLocked) {
		t.Errorf("Lock of a closed file: got %v", err)
	}
}
