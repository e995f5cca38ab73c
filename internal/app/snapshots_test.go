package app

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/timestamplog/memlog"
)

func TestSnapshotFailuresAreLoggedOnceAndAtStop(t *testing.T) {
	var logged bytes.Buffer
	folder := filepath.Join(t.TempDir(), "data")
	s := &snapshots{memory: memlog.New(memlog.Options{}), path: filepath.Join(folder, snapshotFile), log: slog.New(slog.NewTextHandler(&logged, nil))}
	lines := func(text string) int { return strings.Count(logged.String(), text) }
	for range 3 {
		s.save()
	}
	if n := lines("could not be saved"); n != 1 {
		t.Errorf("three failures are logged %d times, want once", n)
	}
	if s.saveLast() == nil {
		t.Error("the last failure has no error")
	}
	if n := lines("could not be saved"); n != 2 {
		t.Error("the last failure is not logged")
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	s.save()
	s.save()
	if n := lines("saved again"); n != 1 || lines("level=") != 3 {
		t.Errorf("the recovery is logged %d times, want once:\n%s", n, &logged)
	}
}
