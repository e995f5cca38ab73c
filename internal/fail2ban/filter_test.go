package fail2ban_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/fail2ban"
)

const filters = "/etc/fail2ban/filter.d/"

// failuresOf returns the failures of a log as fail2ban-regex writes its rows.
func failuresOf(t *testing.T, f *fail2ban.Filter, log []byte) []string {
	t.Helper()
	var rows []string
	for line := range strings.Lines(string(log)) {
		failure, err := f.Parse(strings.TrimRight(line, "\r\n"), time.Date(2026, 11, 28, 14, 0, 0, 0, time.UTC))
		if errors.Is(err, fail2ban.ErrNoFailure) {
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		rows = append(rows, strings.TrimSpace(failure.Address.String()+" "+failure.User))
	}
	return rows
}

// TestFailuresAreThoseOfFail2ban compares line by line with fail2ban-regex, on Debian's filters.
func TestFailuresAreThoseOfFail2ban(t *testing.T) {
	for _, filter := range []string{
		"sshd", "sshd[mode=aggressive]", "sshd[mode=ddos]", "postfix", "postfix[mode=aggressive]", "postfix[mode=auth]", "dovecot", "dovecot[mode=aggressive]", "vsftpd",
		"testdata/nextcloud.conf", "nginx-http-auth", "apache-auth", "proftpd", "recidive",
	} {
		t.Run(filter, func(t *testing.T) {
			t.Parallel()
			path, options, _ := strings.Cut(filter, "[")
			if options != "" {
				options = "[" + options
			}
			if !strings.Contains(path, "/") {
				path = filters + path + ".conf"
			}
			name := strings.TrimSuffix(filepath.Base(path), ".conf")
			sample := filepath.Join("testdata", name+".log")
			log, err := os.ReadFile(sample)
			if err != nil {
				t.Fatal(err)
			}
			f, err := fail2ban.ReadFilter(path+options, time.UTC)
			if err != nil || len(f.Skipped) > 0 {
				t.Fatal(err, f.Skipped)
			}
			absolute, err := filepath.Abs(path)
			if err != nil {
				t.Fatal(err)
			}
			command := exec.Command("fail2ban-regex", "-o", "<ip> <F-USER>", sample, absolute+options)
			command.Env = append(os.Environ(), "TZ=UTC")
			var problems bytes.Buffer
			command.Stderr = &problems
			out, err := command.Output()
			if err != nil && len(out) == 0 && problems.Len() > 0 {
				t.Fatalf("%v: %s", err, problems.String())
			}
			var want []string
			for line := range strings.Lines(string(out)) {
				want = append(want, strings.TrimSpace(line))
			}
			if got := failuresOf(t, f, log); !slices.Equal(got, want) || len(want) == 0 {
				t.Errorf("got\n%s\nfail2ban-regex finds\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// A line that only looks around is no login that was refused, though others of the filter are.
func TestLoginsAreThoseThatNameAUser(t *testing.T) {
	f, err := fail2ban.ReadFilter(filters+"sshd.conf[mode=aggressive]", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]bool{
		"Nov 29 12:00:00 host sshd[1]: Failed password for invalid user admin from 203.0.113.7 port 4711 ssh2":                                          true,
		"Nov 29 12:00:00 host sshd[2]: Did not receive identification string from 203.0.113.7 port 4712":                                                false,
		"Nov 29 12:00:00 host sshd[3]: Unable to negotiate with 203.0.113.7 port 4713: no matching key exchange method found. Their offer: a [preauth]": false,
	} {
		if failure, err := f.Parse(line, time.Date(2026, 11, 29, 12, 0, 1, 0, time.UTC)); err != nil || failure.IsLogin != want {
			t.Errorf("%s: %+v, %v", line, failure, err)
		}
	}
}

// Every filter of Debian that reads single lines can be read whole.
func TestFiltersOfDebianAreRead(t *testing.T) {
	paths, err := filepath.Glob(filters + "*.conf")
	if err != nil || len(paths) < 80 {
		t.Fatal(err, len(paths))
	}
	read := 0
	for _, path := range paths {
		if strings.HasSuffix(path, "common.conf") {
			continue // what others include
		}
		f, err := fail2ban.ReadFilter(path, time.UTC)
		switch {
		case err != nil && (strings.Contains(err.Error(), "lines at once") || strings.Contains(err.Error(), "has no failregex that can be read")):
		case err != nil:
			t.Errorf("%s: %v", path, err)
		case len(f.Skipped) > 0:
			t.Errorf("%s: %q", path, f.Skipped)
		default:
			read++
		}
	}
	if read < 80 {
		t.Errorf("%d of %d are read, want at least 80", read, len(paths))
	}
	t.Logf("%d of %d are read", read, len(paths))
}
