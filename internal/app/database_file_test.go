package app

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// embeddedSettings are those of a node on a folder of its own.
func embeddedSettings(t *testing.T, folder string) Settings {
	t.Helper()
	s, err := Load([]string{"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", folder}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// runOnce starts a node and stops it as SIGTERM does.
func runOnce(t *testing.T, s Settings) error {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	a, err := New(ctx, s, io.Discard, io.Discard)
	if err != nil {
		stop()
		return err
	}
	stop()
	return a.Run(ctx)
}

// wantStartError checks that a start failed with one line that contains the texts.
func wantStartError(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("the node started")
	}
	for _, text := range append(texts, "admin restore FILE") {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q does not contain %q", err, text)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%q is more than one line", err)
	}
}

func TestStartRejectsEmptyOrMissingDatabase(t *testing.T) {
	for name, lose := range map[string]func(path string) error{
		"emptied": func(path string) error { return os.Truncate(path, 0) },
		"removed": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			s := embeddedSettings(t, folder)
			for range 2 { // a second start with the same folder
				if err := runOnce(t, s); err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(folder, "stint.db")
			if err := lose(path); err != nil {
				t.Fatal(err)
			}
			wantStartError(t, runOnce(t, s), "empty or missing", folder)
			// Also without the snapshot, as after an early kill.
			if err := os.Remove(filepath.Join(folder, "logs.snapshot")); err != nil {
				t.Fatal(err)
			}
			wantStartError(t, runOnce(t, s), "empty or missing", folder)
			if info, err := os.Stat(path); err == nil && info.Size() > 0 {
				t.Error("the failed start created a database")
			}
		})
	}
}

func TestStartSucceedsAfterKillBeforeDatabaseWasCreated(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"stint.db", "lock"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := runOnce(t, embeddedSettings(t, folder)); err != nil {
		t.Fatal(err)
	}
}

func TestStartRejectsDamagedDatabase(t *testing.T) {
	folder := t.TempDir()
	s := embeddedSettings(t, folder)
	if err := runOnce(t, s); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "stint.db")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 4096; i < len(content); i++ {
		content[i] = byte(i * 7)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	wantStartError(t, runOnce(t, s), "damaged", path)
}
