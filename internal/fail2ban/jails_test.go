package fail2ban_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/fail2ban"
)

// TestJailsOfDebianAreRead reads Debian's own jails with a jail.local beside them.
func TestJailsOfDebianAreRead(t *testing.T) {
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS("/etc/fail2ban")); err != nil {
		t.Fatal(err)
	}
	const local = `[DEFAULT]
bantime = 1h 30m
bantime.increment = true
bantime.maxtime = 1w
ignoreip = 127.0.0.1/8 ::1, 198.51.100.7 example.com
[sshd]
enabled = true
mode = aggressive
maxretry = 3
findtime = 1d
backend = auto
[postfix]
enabled = true
backend = systemd
`
	if err := os.WriteFile(filepath.Join(folder, "jail.local"), []byte(local), 0o600); err != nil {
		t.Fatal(err)
	}
	jails, err := fail2ban.ReadJails(folder)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, j := range jails {
		names = append(names, j.Name)
		if j.BanTime != 90*time.Minute || j.Factor != 2 || j.MaxBanTime != 7*24*time.Hour || len(j.Ignored) != 3 || !slices.ContainsFunc(j.Left, func(text string) bool { return text == "ignoreip example.com: it is no address" }) {
			t.Errorf("got %+v", j)
		}
		if _, err := fail2ban.ReadFilter(j.Filter, time.UTC); err != nil {
			t.Error(err)
		}
		switch j.Name {
		case "sshd":
			if j.MaxRetry != 3 || j.FindTime != 24*time.Hour || !slices.Equal(j.Logs, []string{"/var/log/auth.log"}) || j.Filter != filepath.Join(folder, "filter.d/sshd.conf[mode=aggressive]") {
				t.Errorf("got %+v", j)
			}
		case "postfix":
			if j.MaxRetry != 5 || j.FindTime != 10*time.Minute || len(j.Logs) > 0 || j.JournalMatch == "" {
				t.Errorf("got %+v", j)
			}
		}
	}
	if slices.Sort(names); !slices.Equal(names, []string{"postfix", "sshd"}) {
		t.Errorf("got %q", names)
	}
}
