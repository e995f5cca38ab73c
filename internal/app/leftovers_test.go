package app

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// watched calls during before it reads or writes.
type watched struct {
	io.ReadWriter
	during func()
}

func (w watched) Read(p []byte) (int, error)  { w.during(); return w.ReadWriter.Read(p) }
func (w watched) Write(p []byte) (int, error) { w.during(); return w.ReadWriter.Write(p) }

// A node that was killed during a backup or a restore left a copy of everything in its folder.
func TestStartRemovesWhatKilledBackupsAndRestoresLeft(t *testing.T) {
	folder := t.TempDir()
	s := embeddedSettings(t, folder)
	a, err := New(t.Context(), s, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	names := func() (all []string) {
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			all = append(all, e.Name())
		}
		return all
	}
	usual, left := names(), []string{".stint-reference-12", ".stint-restore-34", ".stint-restore-34-wal", ".stint-restore-34-shm"}
	during := func() {
		for _, name := range names() {
			if !slices.Contains(usual, name) && !slices.Contains(left, name) {
				left = append(left, name)
			}
		}
	}
	var backup bytes.Buffer
	if err := newBackups(a).Backup(t.Context(), watched{&backup, during}); err != nil {
		t.Fatal(err)
	}
	if _, err := newBackups(a).Verify(t.Context(), watched{&backup, during}); err != nil {
		t.Fatal(err)
	}
	a.close()
	if len(left) != 6 {
		t.Fatalf("a backup and a restore made %q", left)
	}
	kept := []string{"backup-20261101", "restore-7", ".stint-eu-20270118T080000Z.backup-7"} // the operator's
	for _, name := range append(left[4:], kept...) {
		if err := os.MkdirAll(filepath.Join(folder, name, "stint.db"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range left[:4] {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("copy"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := runOnce(t, s); err != nil {
		t.Fatal(err)
	}
	after := names()
	for _, name := range left {
		if slices.Contains(after, name) {
			t.Errorf("%s is left", name)
		}
	}
	for _, name := range kept {
		if !slices.Contains(after, name) {
			t.Errorf("%s was removed, which is not Stint's", name)
		}
	}
}
