package db

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLocateNamesErrorInPostgresURL(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for options, want := range map[string]string{
		"?sslmode=verify-full&sslrootcert=/none/ca.crt":   "/none/ca.crt: no such file",
		"?sslmode=verify-full&sslrootcert=" + empty:       "no certificate",
		"?sslmode=verified":                               "unknown sslmode",
		"?sslmode=disable&connect_timeout=hunter2":        "not one of Postgres",
		"?sslmode=disable&target_session_attrs=hunter2":   "not one of Postgres",
		"?sslmode=require&sslcert=/none/a&sslkey=/none/b": "/none/b: no such file",
	} {
		_, err := locate("postgres://stint:hunter2@127.0.0.1/stint" + options)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q and no secret", options, err, want)
		}
	}
}
