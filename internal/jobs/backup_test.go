package jobs_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/jobs"
)

// writer writes a text as a backup, and then fails with err.
type writer struct{ err error }

func (w writer) Backup(_ context.Context, to io.Writer) error {
	_, err := io.WriteString(to, "data")
	return errors.Join(err, w.err)
}

func TestBackUpKeepsTheNewestAndNoIncompleteOne(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new [1]*")
	job := jobs.BackUp(writer{}, "eu/1", folder, 2)
	start := time.Unix(1_800_000_000, 0)
	names := func() (all []string) {
		files, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			all = append(all, f.Name())
		}
		return all
	}
	for n := range 4 {
		if _, err := job.Run(t.Context(), start.Add(time.Duration(n)*24*time.Hour)); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			if err := os.WriteFile(filepath.Join(folder, "stint-by-hand.backup"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Another installation shares the folder.
	if _, err := jobs.BackUp(writer{}, "eu", folder, 1).Run(t.Context(), start.Add(3*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	others := ".stint-eu-20270118T080000Z.backup-7"
	if err := os.WriteFile(filepath.Join(folder, others), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want := []string{others, "stint-by-hand.backup", "stint-eu-1-20270117T080000Z.backup", "stint-eu-1-20270118T080000Z.backup", "stint-eu-20270118T080000Z.backup"}
	if got := names(); !slices.Equal(got, want) {
		t.Errorf("the folder holds %q, want %q", got, want)
	}
	// The run of the same time again, as after a crash.
	if _, err := job.Run(t.Context(), start.Add(3*24*time.Hour)); err != nil || !slices.Equal(names(), want) {
		t.Errorf("after a repeated run: %q, %v", names(), err)
	}
	if err := os.WriteFile(filepath.Join(folder, ".stint-eu-1-20270119T080000Z.backup-5"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	full := errors.New("no space left")
	if _, err := jobs.BackUp(writer{full}, "eu/1", folder, 2).Run(t.Context(), start.Add(9*24*time.Hour)); !errors.Is(err, full) {
		t.Errorf("Run with a full disk: got %v, want %v", err, full)
	}
	if got := names(); !slices.Equal(got, want) {
		t.Errorf("after a failure the folder holds %q, want %q", got, want)
	}
	info, err := os.Stat(filepath.Join(folder, want[2]))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
}
