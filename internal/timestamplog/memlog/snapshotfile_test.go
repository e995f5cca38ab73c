package memlog_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stint-dev/stint/internal/timestamplog/memlog"
)

func TestLoadRemovesTheRestOfAKilledSave(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logs.snapshot")
	leftover := filepath.Join(filepath.Dir(path), ".logs.snapshot-17")
	log := memlog.New(memlog.Options{})
	for _, state := range []string{"no file yet", "a file"} {
		if err := os.WriteFile(leftover, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := log.LoadFile(path); err != nil {
			t.Fatalf("LoadFile, %s: %v", state, err)
		}
		if _, err := os.Stat(leftover); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the leftover is still there, %v", state, err)
		}
		if err := log.SaveFile(path); err != nil {
			t.Fatalf("SaveFile, %s: %v", state, err)
		}
	}
}
