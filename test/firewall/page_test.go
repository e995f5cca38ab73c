package firewall

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stint-dev/stint/test/servers"
)

var fences = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")

// repository returns the text of a file of the repository.
func repository(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestNftablesPageWorksAsWritten runs the commands of docs/doors/nftables.md in order.
func TestNftablesPageWorksAsWritten(t *testing.T) {
	s := newSite(t)
	s.add("blocks", "ip:203.0.113.1", "")
	ran := 0
	for _, fence := range fences.FindAllStringSubmatch(repository(t, "docs/doors/nftables.md"), -1) {
		language, text := fence[1], fence[2]
		switch language {
		case "nft":
			s.nft(text)
			continue
		case "ini": // the options of the service
			_, text, _ = strings.Cut(text, "STINT_FIREWALL_OPTIONS=")
			text = "stint-admin firewall nftables " + text
		}
		flags, found := strings.CutPrefix(strings.TrimSpace(text), "stint-admin firewall nftables")
		if !found {
			t.Errorf("docs/doors/nftables.md has %q, which this test does not know", text)
			continue
		}
		ran++
		if strings.Contains(flags, "--dry-run") {
			if script := s.once(strings.Fields(flags)...); !strings.Contains(script, "203.0.113.1") {
				t.Errorf("%s prints %s", text, script)
			}
			continue
		}
		s.start(strings.Fields(flags)...)
		if rules := s.nft("list ruleset"); !strings.Contains(rules, "elements = { 203.0.113.1 }") || !strings.Contains(rules, "ip saddr @stint_ipv4") {
			t.Errorf("%s: got the ruleset\n%s", text, rules)
		}
		s.stop()
		s.nft("flush ruleset")
	}
	if ran != 4 {
		t.Errorf("docs/doors/nftables.md: found %d commands, want 4", ran)
	}
}

// The service needs only the capability of its unit.
func TestUnitNeedsOnlyCapNetAdmin(t *testing.T) {
	unit := repository(t, "deploy/nftables/stint-firewall.service")
	for _, line := range []string{"AmbientCapabilities=CAP_NET_ADMIN", "CapabilityBoundingSet=CAP_NET_ADMIN", "NoNewPrivileges=yes", "DynamicUser=yes"} {
		if !strings.Contains(unit, "\n"+line+"\n") {
			t.Errorf("the unit has no line %s", line)
		}
	}
	s := newSite(t)
	s.add("blocks", "ip:203.0.113.1", "")
	c := s.command()
	if err := os.Chmod(filepath.Dir(c.Path), 0o755); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--no-new-privs", "--inh-caps=-all,+net_admin", "--ambient-caps=-all,+net_admin", "--bounding-set=-all,+net_admin"}
	if os.Geteuid() == 0 { // others are nobody special already
		flags = append(flags, "--reuid", "65534", "--regid", "65534", "--clear-groups")
	}
	restricted := exec.Command("setpriv", append(flags, c.Args...)...)
	restricted.Env, s.out = c.Env, &servers.Output{}
	restricted.Stderr = s.out
	s.running = restricted
	if err := restricted.Start(); err != nil {
		t.Fatal(err)
	}
	s.awaitLine("Following", 1)
	s.await("203.0.113.1")
	s.stop()

	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not installed: the unit is not verified")
		return
	}
	path := filepath.Join(t.TempDir(), "stint-firewall.service")
	if err := os.WriteFile(path, []byte(strings.Replace(unit, "/usr/local/bin/stint-admin", c.Path, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command(analyze, "verify", path).CombinedOutput(); err != nil || len(text) > 0 {
		t.Errorf("systemd-analyze verify: %v: %s", err, text)
	}
	if text, err := exec.Command(analyze, "security", "--offline=true", "--threshold=20", "--no-pager", path).CombinedOutput(); err != nil {
		t.Errorf("systemd-analyze security: the exposure is more than 2.0: %v: %s", err, text)
	}
}
