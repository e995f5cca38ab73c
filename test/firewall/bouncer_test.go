package firewall

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/test/servers"
)

// bouncer is CrowdSec's firewall bouncer, which follows a node in one of the
// configurations of docs/doors/crowdsec.md.
type bouncer struct {
	*site
	program, config string
	cmd             *exec.Cmd
	out             *servers.Output
}

var fencedYAML = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// newBouncer returns the bouncer with the n-th configuration of the page.
func (s *site) newBouncer(n int) *bouncer {
	s.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "doors", "crowdsec.md"))
	if err != nil {
		s.Fatal(err)
	}
	dir := os.Getenv("STINT_CROWDSEC")
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			s.Fatal(err)
		}
		dir = filepath.Join(cache, "stint-crowdsec")
	}
	var token struct{ Secret string }
	if err := json.Unmarshal(s.node.Do(s.T, http.MethodPost, "/v1/tokens", `{"name":"bouncer","scopes":["bouncer"]}`, http.StatusCreated), &token); err != nil {
		s.Fatal(err)
	}
	own := s.TempDir()
	b := &bouncer{site: s, program: filepath.Join(dir, "usr/bin/crowdsec-firewall-bouncer"), config: filepath.Join(own, "config.yaml")}
	if _, err := os.Stat(b.program); err != nil {
		s.Fatalf("%v: scripts/setup-tests.sh unpacks it", err)
	}
	text := strings.NewReplacer(
		"http://127.0.0.1:8080/", s.node.Check+"/", "SECRET", token.Secret, "update_frequency: 10s", "update_frequency: 1s",
		"/var/run/", own, "/var/log/", own, "log_mode: file", "log_mode: stdout",
	).Replace(fencedYAML.FindAllStringSubmatch(string(page), -1)[n][1])
	if err := os.WriteFile(b.config, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(b.stop)
	return b
}

func (b *bouncer) start() {
	b.Helper()
	b.out = &servers.Output{}
	b.cmd = exec.Command(b.program, "-c", b.config)
	b.cmd.Stdout, b.cmd.Stderr = b.out, b.out
	if err := b.cmd.Start(); err != nil {
		b.Fatal(err)
	}
}

func (b *bouncer) stop() {
	if b.cmd == nil {
		return
	}
	_ = b.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	_ = b.cmd.Wait()
	b.cmd = nil
	if b.Failed() {
		b.Log(b.out.String())
	}
}

func TestFirewallBouncerDropsBlockedAddresses(t *testing.T) {
	for n, mode := range []string{"minimal", "complete", "nftables"} {
		t.Run(mode, func(t *testing.T) {
			s, p := newSite(t), newPeer(t)
			ipv4, ipv6 := serve(t, hereIPv4), serve(t, hereIPv6)
			b := s.newBouncer(n)
			await := func(what string, to string, want bool) {
				t.Helper()
				s.until(fmt.Sprintf("connections: %v (%s)", want, what), func() bool { got, _ := p.connects(to, "1"); return got == want })
			}
			await("before", ipv4, true)
			block := s.add("blocks", "ip:"+peerIPv4, `,"expires_in":"1h"`)
			b.start()
			await("blocked before the bouncer's start", ipv4, false)
			await("another address", ipv6, true)

			exempt := s.add("exemptions", "ip:"+peerIPv4, "")
			await("exempt", ipv4, true)
			s.end("exemptions", exempt)
			await("no longer exempt", ipv4, false)

			s.edit("blocks", block, `{"expires_in":"30m"}`) // deleted and added in the next pull
			await("shortened", ipv4, false)
			s.edit("blocks", block, `{"expires_in":"4s"}`)
			await("shortened until it ends", ipv4, true)

			short := time.Now().Add(12 * time.Second) // a busy machine sees the block before it ends
			block = s.add("blocks", "ip:"+peerIPv4, `,"expires_in":"12s","on_conflict":"replace"`)
			await("blocked for seconds", ipv4, false)
			s.edit("blocks", block, `{"expires_in":"1h"}`)
			time.Sleep(time.Until(short.Add(3 * time.Second))) // the set may have dropped it at the old end
			await("extended", ipv4, false)

			s.node.Crash()
			if got, _ := p.connects(ipv4, "1"); got {
				t.Error("a blocked peer connects while the node is down")
			}
			s.node.Restart(t)
			if got, _ := p.connects(ipv4, "1"); got {
				t.Error("a blocked peer connects after the node has restarted")
			}
			s.end("blocks", block)
			await("ended after Stint has started again", ipv4, true)

			network := s.add("blocks", "ip:192.0.2.0/24", "")
			s.add("blocks", "ip:"+peerIPv6, "") // its /64
			if mode != "nftables" {
				await("a range", ipv4, false)
				await("a range of IPv6", ipv6, false)
				b.stop()
				s.end("blocks", network)
				b.start()
				await("ended while the bouncer was stopped", ipv4, true)
				await("still blocked", ipv6, false)
				return
			}
			s.add("blocks", "ip:198.51.100.1", "") // after it, everything before it has been applied too
			ruleset := ""
			s.until("the other block", func() bool {
				text, err := exec.Command("nft", "list", "ruleset").Output()
				ruleset = string(text)
				return err == nil && strings.Contains(ruleset, "198.51.100.1")
			})
			if got, _ := p.connects(ipv4, "5"); !got || !strings.Contains(ruleset, "192.0.2.0 ") || strings.Contains(ruleset, "192.0.2.0/24") {
				t.Errorf("the ruleset does not drop only the first address of a range, as docs/doors/crowdsec.md says:\n%s", ruleset)
			}
		})
	}
}
