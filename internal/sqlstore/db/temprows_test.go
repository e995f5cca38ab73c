package db

import (
	"path/filepath"
	"testing"

	"github.com/stint-dev/stint/internal/fault"
)

func TestTempRowsWithoutAFolderAreUnavailable(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	rows, err := WriteTempRows(t.Context(), func(yield func(int, error) bool) { yield(1, nil) })
	if rows != nil || !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v, %v; want %s", rows, err, fault.Unavailable)
	}
}
