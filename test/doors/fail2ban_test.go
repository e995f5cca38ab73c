package doors

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/test/testnode"
)

// jail is a real fail2ban with one jail, whose action is deploy/fail2ban/stint.conf.
type jail struct {
	*testing.T
	node *testnode.Node
	dir  string
	log  string // that it reads
}

func startJail(t *testing.T) *jail {
	t.Helper()
	j := &jail{T: t, node: testnode.Start(t), dir: t.TempDir()}
	j.log = filepath.Join(j.dir, "auth.log")
	var token struct{ Secret string }
	made := j.node.Do(t, http.MethodPost, "/v1/tokens", `{"name":"fail2ban","scopes":["operate"]}`, http.StatusCreated)
	if err := json.Unmarshal(made, &token); err != nil {
		t.Fatal(err)
	}
	action, err := os.ReadFile(repository(t, "deploy/fail2ban/stint.conf"))
	if err != nil {
		t.Fatal(err)
	}
	command := fmt.Sprintf("%s --url %s --token-file %s/stint.token", testnode.AdminProgram(t), j.node.Admin, j.dir)
	for name, text := range map[string]string{
		"auth.log":             "",
		"stint.token":          token.Secret + "\n",
		"action.d/stint.conf":  string(action),
		"filter.d/guess.conf":  "[Definition]\nfailregex = ^ wrong password from <HOST>$\n",
		"fail2ban.conf":        fmt.Sprintf("[Definition]\nloglevel = INFO\nlogtarget = %[1]s/fail2ban.log\nsyslogsocket = auto\nsocket = %[1]s/socket\npidfile = %[1]s/pid\ndbfile = %[1]s/db\ndbpurgeage = 1d\n", j.dir),
		"jail.conf":            fmt.Sprintf("[guess]\nenabled = true\nbackend = polling\nfilter = guess\nlogpath = %[1]s\nmaxretry = 3\nfindtime = 600\nbantime = 600\nignoreip =\naction = stint[stint=\"%[2]s\"]\n[recidive]\nenabled = true\nbackend = polling\nfilter = guess\nlogpath = %[3]s\nbantime = 1w\nignoreip =\naction = stint[stint=\"%[2]s\"]\n", j.log, command, filepath.Join(j.dir, "recidive.log")),
		"recidive.log":         "",
		"paths-common.conf":    "",
		"action.d/.keep":       "",
		"filter.d/common.conf": "",
	} {
		path := filepath.Join(j.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	j.start()
	t.Cleanup(func() {
		j.stop()
		if t.Failed() {
			text, _ := os.ReadFile(filepath.Join(j.dir, "fail2ban.log")) // for reading only
			t.Logf("fail2ban:\n%s", text)
		}
	})
	return j
}

func (j *jail) client(args ...string) {
	j.Helper()
	all := append([]string{"-c", j.dir, "-s", j.dir + "/socket", "-p", j.dir + "/pid"}, args...)
	if text, err := exec.Command("fail2ban-client", all...).CombinedOutput(); err != nil {
		j.Fatalf("fail2ban-client %v: %v: %s", args, err, text)
	}
}

func (j *jail) start() { j.Helper(); j.client("start") }
func (j *jail) stop()  { j.Helper(); j.client("stop") }

// guess writes three wrong passwords to the log.
func (j *jail) guess(address string) {
	j.Helper()
	f, err := os.OpenFile(j.log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		j.Fatal(err)
	}
	defer f.Close()
	for range 3 {
		if _, err := fmt.Fprintf(f, "%s wrong password from %s\n", time.Now().Format("2006-01-02 15:04:05"), address); err != nil {
			j.Fatal(err)
		}
	}
}

type listed struct {
	Pattern, Reason, Author string
	ExpiresAt               *time.Time `json:"expires_at"`
	Sources                 []struct{ Name, Pattern string }
}

// blocks returns the active blocks.
func (j *jail) blocks() []listed {
	j.Helper()
	var page struct{ Items []listed }
	if err := json.Unmarshal(j.node.Do(j.T, http.MethodGet, "/v1/blocks", "", http.StatusOK), &page); err != nil {
		j.Fatal(err)
	}
	return page.Items
}

// await waits until the active blocks are as wanted.
func (j *jail) await(what string, wanted func([]listed) bool) []listed {
	j.Helper()
	for deadline := time.Now().Add(maxWait); ; time.Sleep(50 * time.Millisecond) {
		all := j.blocks()
		if wanted(all) {
			return all
		}
		if time.Now().After(deadline) {
			j.Fatalf("waited too long for %s: the blocks are %+v", what, all)
		}
	}
}

func count(n int) func([]listed) bool { return func(all []listed) bool { return len(all) == n } }

func TestFail2banBanBecomesABlock(t *testing.T) {
	j := startJail(t)
	j.guess("203.0.113.5")
	banned := j.await("a ban", count(1))[0]
	if banned.Pattern != "ip:203.0.113.5" || banned.Reason != "fail2ban guess" || banned.Author != "fail2ban" || banned.ExpiresAt == nil {
		t.Fatalf("the block of a ban: got %+v", banned)
	}
	if left := time.Until(*banned.ExpiresAt); left > 10*time.Minute || left < time.Minute {
		t.Errorf("the block ends in %s, want at most 10 minutes", left)
	}

	// A restart of fail2ban keeps the block and its expiry.
	j.stop()
	j.start()
	after := j.await("after a restart", count(1))[0]
	if !after.ExpiresAt.Equal(*banned.ExpiresAt) {
		t.Errorf("after a restart the block ends at %s, before at %s", after.ExpiresAt, banned.ExpiresAt)
	}

	// An operator's block survives the ban and the unban of its address, and does not keep
	// the ban from ending.
	j.node.Do(t, http.MethodPost, "/v1/blocks", `{"pattern":"ip:203.0.113.5","reason":"by hand, too","scope":"login"}`, http.StatusCreated)
	j.node.Do(t, http.MethodPost, "/v1/blocks", `{"pattern":"ip:203.0.113.6","reason":"by hand"}`, http.StatusCreated)
	j.guess("203.0.113.6")
	j.guess("2001:db8::1")
	j.await("an IPv6 address", func(all []listed) bool {
		for _, b := range all {
			if b.Pattern == "ip:2001:db8::/64" {
				return true
			}
		}
		return false
	})
	j.client("unban", "--all")
	for _, b := range j.await("unbanned", count(2)) {
		if b.Author == banned.Author || b.ExpiresAt != nil {
			t.Errorf("after unbanning all, the block %+v is active", b)
		}
	}
}

func TestFail2banPermanentBanBecomesAPermanentBlock(t *testing.T) {
	j := startJail(t)
	j.client("set", "guess", "bantime", "-1")
	j.guess("203.0.113.7")
	if b := j.await("a ban", count(1))[0]; b.ExpiresAt != nil {
		t.Errorf("the block ends at %s, want a permanent one", b.ExpiresAt)
	}
}

// A filter may ban by text that clients send, like a user's name: it must be one argument, and neither
// a flag nor another address.
func TestFail2banActionDoesNotReadClientTextAsFlags(t *testing.T) {
	j := startJail(t)
	j.client("set", "guess", "addfailregex", "^ wrong password from <F-ID>.+</F-ID>$")
	j.guess("203.0.113.8 --scope login")
	j.guess("203.0.113.7 --reason $(id)")
	j.guess("203.0.113.9") // which is banned last
	j.await("the last ban", func(all []listed) bool {
		return slices.ContainsFunc(all, func(b listed) bool { return b.Pattern == "ip:203.0.113.9" })
	})
	if all := j.blocks(); len(all) != 1 {
		t.Errorf("got the blocks %+v, want the last only", all)
	}
	// fail2ban unbans only what it has finished to ban. Its bans are one after the other.
	j.guess("203.0.113.6 --scope login")
	j.await("the next ban", func([]listed) bool {
		text, err := os.ReadFile(filepath.Join(j.dir, "fail2ban.log"))
		return err == nil && strings.Contains(string(text), "Failed to execute ban jail 'guess' action 'stint' info 'ActionInfo({'ip': '203.0.113.6 ")
	})
	j.client("unban", "--all")
	j.await("unbanned", count(0))
}

// isHeldBy reports whether there is one block, of a pattern and held by these sources.
func isHeldBy(pattern string, sources ...string) func([]listed) bool {
	return func(all []listed) bool {
		if len(all) != 1 || all[0].Pattern != pattern {
			return false
		}
		var names []string
		for _, s := range all[0].Sources {
			names = append(names, strings.TrimSpace(s.Name+" "+s.Pattern))
		}
		slices.Sort(names)
		return slices.Equal(names, sources)
	}
}

// The ban of one jail ends for that jail: a short one does not take the block of a long one along.
func TestFail2banUnbanKeepsBlockOfOtherJails(t *testing.T) {
	j := startJail(t)
	j.client("set", "recidive", "banip", "203.0.113.5")
	long := j.await("the long ban", isHeldBy("ip:203.0.113.5", "fail2ban/recidive"))[0]
	j.client("set", "guess", "banip", "203.0.113.5")
	j.await("both bans", isHeldBy("ip:203.0.113.5", "fail2ban/guess", "fail2ban/recidive"))
	j.client("set", "guess", "unbanip", "203.0.113.5")
	after := j.await("the end of the short ban", isHeldBy("ip:203.0.113.5", "fail2ban/recidive"))[0]
	if !after.ExpiresAt.Equal(*long.ExpiresAt) || after.Reason != "fail2ban recidive" {
		t.Errorf("after the short ban the block is %+v, want %+v", after, long)
	}
	// The other way round the block ends with the short ban.
	j.client("set", "guess", "banip", "203.0.113.5")
	j.await("both bans", isHeldBy("ip:203.0.113.5", "fail2ban/guess", "fail2ban/recidive"))
	j.client("set", "recidive", "unbanip", "203.0.113.5")
	short := j.await("the end of the long ban", isHeldBy("ip:203.0.113.5", "fail2ban/guess"))[0]
	if short.Reason != "fail2ban guess" || !short.ExpiresAt.Before(*long.ExpiresAt) {
		t.Errorf("after the long ban the block is %+v", short)
	}
	j.client("set", "guess", "unbanip", "203.0.113.5")
	j.await("the end of both", count(0))
}

// Two addresses of one /64 are one block, which ends with the ban of the last of them.
func TestFail2banUnbanKeepsBlockOfOtherAddresses(t *testing.T) {
	j := startJail(t)
	j.client("set", "guess", "banip", "2001:db8::1")
	j.await("the first ban", isHeldBy("ip:2001:db8::/64", "fail2ban/guess ip:2001:db8::1"))
	j.client("set", "guess", "banip", "2001:db8::2")
	j.await("both bans", isHeldBy("ip:2001:db8::/64", "fail2ban/guess ip:2001:db8::1", "fail2ban/guess ip:2001:db8::2"))
	j.client("set", "guess", "unbanip", "2001:db8::1")
	j.await("the end of the first ban", isHeldBy("ip:2001:db8::/64", "fail2ban/guess ip:2001:db8::2"))
	j.client("set", "guess", "unbanip", "2001:db8::2")
	j.await("the end of both", count(0))
}
