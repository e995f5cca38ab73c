package firewall

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/test/servers"
)

func TestSetsFollowTheBlocks(t *testing.T) {
	s := newSite(t)
	s.add("blocks", "ip:203.0.113.1", "") // before the start
	s.start("--metrics-listen", "127.0.0.1:0")
	s.await("203.0.113.1")

	hour := s.add("blocks", "ip:198.51.100.0/24", `,"expires_in":"1h"`)
	s.await("198.51.100.0/24+ 203.0.113.1")
	six := s.add("blocks", "ip:2001:db8::/64", "")
	s.await("198.51.100.0/24+ 203.0.113.1 2001:db8::/64")

	// The inner block lasts longer than the one around it.
	inner := s.add("blocks", "ip:198.51.100.7", "")
	s.await("198.51.100.0-198.51.100.6+ 198.51.100.7 198.51.100.8-198.51.100.255+ 203.0.113.1 2001:db8::/64")
	s.end("blocks", inner)
	s.await("198.51.100.0/24+ 203.0.113.1 2001:db8::/64")

	exempt := s.add("exemptions", "ip:198.51.100.128/25", "")
	s.await("198.51.100.0/25+ 203.0.113.1 2001:db8::/64")
	all := s.add("exemptions", "ip:*", "")
	s.await("")
	s.end("exemptions", all)
	s.end("exemptions", exempt)
	s.await("198.51.100.0/24+ 203.0.113.1 2001:db8::/64")

	s.edit("blocks", hour, `{"expires_at":null}`) // extended
	s.await("198.51.100.0/24 203.0.113.1 2001:db8::/64")
	s.edit("blocks", hour, `{"expires_in":"1s"}`) // shortened: it times out
	s.await("203.0.113.1 2001:db8::/64")

	// An exemption that expires uncovers the block.
	around := s.add("exemptions", "ip:203.0.113.0/24", "")
	s.await("2001:db8::/64")
	s.edit("exemptions", around, `{"expires_in":"1s"}`)
	s.await("203.0.113.1 2001:db8::/64")

	s.end("blocks", six)
	s.await("203.0.113.1")
	s.node.Do(t, http.MethodPost, "/v1/blocks/"+six+"/restore", "", http.StatusOK)
	s.await("203.0.113.1 2001:db8::/64")

	// An import is one change without the list of its blocks.
	s.importBlocks("ip:192.0.2.1\nip:192.0.2.3\n", "")
	s.await("192.0.2.1 192.0.2.3 203.0.113.1 2001:db8::/64")

	at := regexp.MustCompile(`Metrics: (http://\S+)`).FindStringSubmatch(s.out.String())
	if at == nil {
		t.Fatalf("the command does not print the address of its metrics:\n%s", s.out.String())
	}
	for _, want := range []string{"stint_firewall_connected 1", `stint_firewall_ranges{family="ipv4"} 3`, `stint_firewall_ranges{family="ipv6"} 1`, "stint_firewall_blocks 4"} {
		s.until(want+" in the metrics", func() bool { return strings.Contains(s.get(at[1]), want+"\n") })
	}
}

// get returns the body of an answer of this machine.
func (s *site) get(url string) string {
	s.Helper()
	answer, err := http.Get(url)
	if err != nil {
		s.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.Fatal(err)
	}
	return string(text)
}

// Blocks that escalation makes have no actor but the server.
func TestSetsContainAutomaticBlocks(t *testing.T) {
	s := newSite(t)
	s.node.Do(t, http.MethodPut, "/v1/policies/guarded?confirm=guarded", `{"match":["ip:203.0.113.0/24"],"rules":["1/1h"],"mode":"enforce",
		"escalation":{"threshold":3,"window":"10m","duration":"1h","factor":2,"max_duration":"8h","decay_after":"7d"}}`, http.StatusCreated)
	s.start()
	for range 6 {
		answer, err := http.Post(s.node.Check+"/v1/check", "application/json", strings.NewReader(`{"key":"ip:203.0.113.9"}`))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
	}
	s.await("203.0.113.9+")
}

// importBlocks imports patterns, one a line. more continues the query.
func (s *site) importBlocks(lines, more string) {
	s.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, s.node.Admin+"/v1/blocks/import?reason=test"+more, strings.NewReader(lines))
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Content-Type", "text/plain")
	s.node.Authorize(r)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		var text bytes.Buffer
		_, _ = text.ReadFrom(answer.Body)
		s.Fatalf("the import: got %s: %s", answer.Status, text.String())
	}
}

func TestTimeoutsMatchTheBlocks(t *testing.T) {
	s := newSite(t)
	id := s.add("blocks", "ip:203.0.113.1", `,"expires_in":"1h"`)
	s.start()
	left := func() time.Duration {
		out, err := exec.Command("nft", "-j", "list", "set", "inet", "stint", "stint_ipv4").Output()
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ := strings.Cut(string(out), `"expires": `)
		var seconds int64
		if _, err := fmt.Sscan(text, &seconds); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return time.Duration(seconds) * time.Second
	}
	between := func(low, high time.Duration) bool { d := left(); return d > low && d <= high }
	if !between(50*time.Minute, time.Hour) {
		t.Errorf("the element times out in %s, want an hour", left())
	}
	for _, step := range []struct {
		expires   string
		low, high time.Duration
	}{
		{"3h", 170 * time.Minute, 3 * time.Hour}, {"30m", 20 * time.Minute, 30 * time.Minute}, {"3650d", 3649 * 24 * time.Hour, 3650 * 24 * time.Hour},
	} {
		s.edit("blocks", id, `{"expires_in":"`+step.expires+`"}`)
		s.until("a timeout of "+step.expires, func() bool { return between(step.low, step.high) })
	}
}

func TestSetsSurviveRestartsAndOutages(t *testing.T) {
	s := newSite(t)
	ended := s.add("blocks", "ip:203.0.113.1", "")
	s.add("blocks", "ip:203.0.113.3", "")
	s.start("--compare-every", "1s")
	s.await("203.0.113.1 203.0.113.3")

	s.stop()
	s.await("203.0.113.1 203.0.113.3") // the sets stay
	s.end("blocks", ended)
	s.add("blocks", "ip:203.0.113.5", `,"expires_in":"10m"`)
	s.start("--compare-every", "1s")
	s.await("203.0.113.3 203.0.113.5+")
	s.add("blocks", "ip:203.0.113.7", `,"expires_in":"15s"`)
	s.await("203.0.113.3 203.0.113.5+ 203.0.113.7+")

	s.node.Crash()
	s.awaitLine("the sets stay and their elements time out", 1)
	s.await("203.0.113.3 203.0.113.5+")
	s.nft("delete table inet stint") // it is restored from memory
	s.await("203.0.113.3 203.0.113.5+")
	s.node.Restart(t)
	s.awaitLine("Following", 2)
	s.add("blocks", "ip:203.0.113.9", "")
	s.await("203.0.113.3 203.0.113.5+ 203.0.113.9")

	s.nft("flush set inet stint stint_ipv4")
	s.await("203.0.113.3 203.0.113.5+ 203.0.113.9")
	s.nft("flush table inet stint") // only the rules
	s.until("the rules", func() bool { return strings.Contains(s.nft("list table inet stint"), "@stint_ipv6") })
	s.nft("flush ruleset")
	s.await("203.0.113.3 203.0.113.5+ 203.0.113.9")
	s.nft("add element inet stint stint_ipv4 { 192.0.2.1 }\ndelete element inet stint stint_ipv4 { 203.0.113.9 }")
	s.await("203.0.113.3 203.0.113.5+ 203.0.113.9")

	// A change while the kernel has other sets than the command has written.
	s.stop()
	s.start("--compare-every", "1h")
	s.nft("delete table inet stint")
	s.add("blocks", "ip:203.0.113.11", "")
	s.await("203.0.113.3 203.0.113.5+ 203.0.113.9 203.0.113.11")
	s.nft("add element inet stint stint_ipv4 { 203.0.113.12-203.0.113.14 }")
	s.add("blocks", "ip:203.0.113.13", "")
	s.await("203.0.113.3 203.0.113.5+ 203.0.113.9 203.0.113.11 203.0.113.13")
}

// The command starts while the node is down, and leaves the sets unchanged until it is running.
func TestCommandStartsWhileTheNodeIsDown(t *testing.T) {
	s := newSite(t)
	s.add("blocks", "ip:203.0.113.1", "")
	s.start()
	s.stop()
	s.node.Crash()
	s.running, s.out = s.command(), &servers.Output{}
	s.running.Stderr = s.out
	if err := s.running.Start(); err != nil {
		t.Fatal(err)
	}
	s.awaitLine("is unreachable", 1)
	if got := s.elements(); got != "203.0.113.1" {
		t.Errorf("got %s", got)
	}
	s.node.Restart(t)
	s.awaitLine("Following", 1)
	s.add("blocks", "ip:203.0.113.3", "")
	s.await("203.0.113.1 203.0.113.3")
}

func TestSetsContainNoHostileKeys(t *testing.T) {
	s := newSite(t)
	for _, pattern := range []string{
		"token:1.2.3.4 }; flush ruleset; #", `user:"\\*`, "host:203.0.113.7", "user:\u00e9\u4e2d", "ip2:10.0.0.1", "token:*", "user:$(reboot)", "session:@stint_ipv4",
	} {
		s.add("blocks", pattern, "")
	}
	s.add("blocks", "ip:127.0.0.0/8", "")
	s.add("blocks", "ip:::1/128", "")
	s.add("blocks", "ip:192.0.2.0/29", "")
	s.add("blocks", "ip:0.0.0.0/0", "")
	s.nft("add table inet other\nadd chain inet other own")
	s.start("--never", "192.0.2.2", "--never", "192.0.2.4/30", "--never", "2001:db8::/32", "--never", "::ffff:198.51.100.0/120")
	s.await("192.0.2.0/31 192.0.2.3")
	s.awaitLine("Left out: 8 blocks of other keys, 1 of every address.", 1)
	if !strings.Contains(s.nft("list ruleset"), "chain own") {
		t.Error("a table of another program was deleted")
	}
	s.add("blocks", "ip:2001:db8:1::/64", "")
	s.add("blocks", "ip:198.51.100.7", "")
	s.add("blocks", "ip:192.0.2.9", "")
	s.await("192.0.2.0/31 192.0.2.3 192.0.2.9")
}

func TestDryRunPrintsTheScriptAndRemoveRestoresTheRuleset(t *testing.T) {
	s := newSite(t)
	s.nft("add table inet other\nadd chain inet other own\nadd set inet other stint_ipv4 { type ipv4_addr; }")
	before := s.nft("list ruleset")
	if script := s.once("--remove", "--dry-run"); script != "" {
		t.Errorf("--remove --dry-run without sets prints %s, want nothing", script)
	}
	s.once("--remove")
	s.add("blocks", "ip:203.0.113.0/24", "")
	s.add("blocks", "ip:2001:db8::/64", `,"expires_in":"1h"`)
	script := s.once("--dry-run")
	if after := s.nft("list ruleset"); after != before {
		t.Errorf("a dry run changed the ruleset to\n%s", after)
	}
	s.nft(script) // the printed script is the one that is executed
	s.await("203.0.113.0/24 2001:db8::/64+")

	s.start("--reject", "--hook", "forward", "--priority", "-77")
	if text := s.nft("list table inet stint"); !strings.Contains(text, "hook forward priority -77") || !strings.Contains(text, "reject with icmpx admin-prohibited") {
		t.Errorf("--reject --hook --priority: got the table\n%s", text)
	}
	s.stop()
	s.start("--remove-on-exit")
	s.stop()
	if after := s.nft("list ruleset"); after != before {
		t.Errorf("--remove-on-exit left\n%s", after)
	}

	// Chains that another program added to the table are kept.
	s.start()
	s.stop()
	s.nft("add chain inet stint own")
	script = s.once("--remove", "--dry-run")
	if strings.Contains(script, "delete table") {
		t.Errorf("--remove would delete the chain of another program: %s", script)
	}
	s.once("--remove")
	if after := s.nft("list table inet stint"); strings.Contains(after, "stint_") || strings.Contains(after, "chain stint") || !strings.Contains(after, "chain own") {
		t.Errorf("--remove left\n%s", after)
	}
}

func TestSetsOnlyCreatesNoChainAndIsRemoved(t *testing.T) {
	s := newSite(t)
	s.nft(`
add table inet filter
add set inet filter stint_ipv4 { type ipv4_addr; flags interval, timeout; }
add chain inet filter input { type filter hook input priority 0; }
add rule inet filter input ip saddr @stint_ipv4 tcp dport 443 drop`)
	before := s.nft("list ruleset")
	s.add("blocks", "ip:203.0.113.1", "")
	s.start("--table", "filter", "--sets-only")
	s.until("the element", func() bool { return strings.Contains(s.nft("list table inet filter"), "elements = { 203.0.113.1 }") })
	if strings.Contains(s.nft("list ruleset"), "chain stint") {
		t.Error("--sets-only created a chain")
	}
	s.stop()
	s.once("--table", "inet filter", "--sets-only", "--remove")
	if after := s.nft("list ruleset"); after != before {
		t.Errorf("--sets-only --remove left\n%s\nwant\n%s", after, before)
	}
	s.nft("flush ruleset\nadd table inet filter\nadd set inet filter stint_ipv4 { type ipv4_addr; }")
	// nft 1.0 names the kernel's error, nft 1.1 what the set lacks.
	text, err := s.command("--table", "filter").CombinedOutput()
	if err == nil || !strings.Contains(string(text), "File exists") && !strings.Contains(string(text), "existing set lacks interval flag") {
		t.Errorf("a set with other flags: got %v: %s", err, text)
	}
}

func TestCommandRejectsBadFlagsAndTokens(t *testing.T) {
	s := newSite(t)
	for _, row := range []struct{ flags, text string }{
		{"--table ip;x", "names of tables and chains"}, {"--table ip stint", "is not of the family inet"}, {"--hook output", `the hook "output" is unknown`},
		{"--never example.org", "is not an address or network"}, {"--compare-every 10ms", "at least 1s"}, {"--drop --reject", "give --drop or --reject, not both"},
	} {
		flag, value, _ := strings.Cut(row.flags, " ")
		flags := []string{flag, value}
		if text, err := s.command(flags...).CombinedOutput(); err == nil || !strings.Contains(string(text), row.text) {
			t.Errorf("%s: got %v: %s", row.flags, err, text)
		}
	}
	s.token = "stint_wrong"
	if text, err := s.command().CombinedOutput(); err == nil || !strings.Contains(string(text), "token") {
		t.Errorf("a wrong token: got %v: %s", err, text)
	}
	if got := s.elements(); got != "none" {
		t.Errorf("got %s", got)
	}
}

func TestExpiryOfManyBlocksChangesAtOnce(t *testing.T) {
	s := newSite(t)
	many := manyBlocks()
	var file strings.Builder
	for i := range many {
		fmt.Fprintf(&file, "ip:10.%d.%d.%d\n", i>>8, i&255, i*7&254)
	}
	file.WriteString("ip:2001:db8::/64\n")
	s.start()
	s.importBlocks(file.String(), "")
	s.awaitLine(fmt.Sprintf("are %d ranges of IPv4 and 1 of IPv6; added %d, removed 0", many, many+1), 1)
	s.importBlocks(file.String(), "&on_conflict=replace&expires_in=1h")
	s.awaitLine(fmt.Sprintf("are %d ranges of IPv4 and 1 of IPv6; added %[2]d, removed %[2]d", many, many+1), 1)
	out, err := exec.Command("nft", "list", "ruleset").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(out), " expires "); got != many+1 {
		t.Errorf("got %d elements that time out, want %d", got, many+1)
	}
}

func TestManyBlocksAreApplied(t *testing.T) {
	s := newSite(t)
	many := manyBlocks()
	var file strings.Builder
	for i := range many {
		fmt.Fprintf(&file, "ip:10.%d.%d.%d\n", i>>8, i&255, i*7&254)
	}
	s.start()
	s.importBlocks(file.String(), "")
	s.awaitLine(fmt.Sprintf("are %d ranges of IPv4", many), 1)
	out, err := exec.Command("nft", "-j", "list", "set", "inet", "stint", "stint_ipv4").Output()
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Nftables []struct{ Set struct{ Elem []any } }
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		t.Fatal(err)
	}
	if got := len(answer.Nftables[1].Set.Elem); got != many {
		t.Errorf("got %d elements, want %d", got, many)
	}
	began := time.Now()
	s.add("blocks", "ip:203.0.113.1", "")
	s.until("one more", func() bool {
		return exec.Command("nft", "get", "element", "inet", "stint", "stint_ipv4", "{ 203.0.113.1 }").Run() == nil
	})
	t.Logf("one more block was applied after %s", time.Since(began))
	s.stop()
	s.start() // with the sets up to date
	if !strings.Contains(s.out.String(), "added 0, removed 0") {
		t.Errorf("after a restart: the command printed %s", s.out.String())
	}
}
