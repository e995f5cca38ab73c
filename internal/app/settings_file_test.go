package app

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/jobs"
)

// What ends the start of a node is found by the check of its file before.
func TestConfigCheckRejectsWhatEndsTheStart(t *testing.T) {
	for text, want := range map[string]string{
		"schedules: daily-report=@dayly\n":    "schedules in ",
		"schedules: dayly-report=@daily\n":    "none of that name",
		"schedules: back-up=@daily\n":         "--backup-dir",
		"notify-smtp-url: smtp://h:99999\n":   "notifications by mail",
		"notify-smtp-url: smtp://h\n":         "the sender",
		"geoip-dir: /nonexistent\n":           "geoip-dir in ",
		"log-level: warn\n---\nlisten: a:1\n": "a second document",
		"# one\nlisten = 127.0.0.1:8080\n":    "line 2: settings are lines of a name, a colon and a value",
	} {
		var out, wrong strings.Builder
		code := Main(Process{Args: []string{"config", "check", writeFile(t, text)}, Out: &out, Logs: &wrong})
		if code != 1 || !strings.Contains(wrong.String(), want) || strings.Count(wrong.String(), "\n") != 1 {
			t.Errorf("%q: got the exit code %d: %s%s", text, code, &out, &wrong)
		}
	}
}

func TestJobNamesMatchTheJobsOfANode(t *testing.T) {
	all, err := startApp(t, "--backup-dir", filepath.Join(t.TempDir(), "backups")).jobs.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, j := range all {
		names = append(names, j.Name)
	}
	if !slices.Equal(names, jobs.Names()) {
		t.Errorf("got  %s\nwant %s", jobs.Names(), names)
	}
}

// A password of digits would otherwise be another one, as 1.2345678912e+10.
func TestSettingsFileKeepsTheSpellingOfNumbers(t *testing.T) {
	s, err := Load([]string{"--config", writeFile(t, "admin-password: 012345678912\nnode-name: 007\nredis-prefix: 2026-01-02\nbackup-keep: 12\nadmin-insecure: True\n")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.AdminPassword != "012345678912" || s.NodeName != "007" || s.RedisPrefix != "2026-01-02" || s.BackupKeep != 12 || !s.AdminInsecure {
		t.Errorf("got %q, %q, %q, %d and %v", s.AdminPassword, s.NodeName, s.RedisPrefix, s.BackupKeep, s.AdminInsecure)
	}
}

// A file that was named by mistake, as a device without end, must not take all memory.
func TestFilesOfSettingsAreBounded(t *testing.T) {
	long := writeFile(t, "log-level: warn\n#"+strings.Repeat("a", 1<<20))
	refused := map[string]string{long: " is larger than 1 MiB", "/dev/zero": " is not a regular file"} // as certificates
	for path := range refused {
		for bound, args := range map[string][]string{
			"the settings file " + path + ": " + path + " is larger than 1 MiB": {"config", "check", path},
			path + " is larger than 1 MiB":                                      {"--config", path},
			"--admin-token-file: " + path + " is larger than 64 KiB":            {"--admin-token-file", path},
			"--tls-cert: " + path + refused[path]:                               {"--tls-cert", path, "--tls-key", path, "--data-dir", t.TempDir()},
		} {
			var out, wrong strings.Builder
			code := Main(Process{Args: args, Out: &out, Logs: &wrong})
			if code != 1 || !strings.HasSuffix(wrong.String(), bound+"\n") || strings.Count(wrong.String(), "\n") != 1 {
				t.Errorf("%q: got the exit code %d: %s%s", args, code, &out, &wrong)
			}
		}
	}
}
