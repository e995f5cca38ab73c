package doors

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/test/testnode"
)

// alert reports an attacker like CrowdSec's agent. The profiles decide about the
// remediation.
func (c *crowdSec) alert(scope, value string) {
	c.Helper()
	credentials, err := os.ReadFile(filepath.Join(c.dir, "credentials.yaml"))
	if err != nil {
		c.Fatal(err)
	}
	field := func(name string) string {
		return string(regexp.MustCompile(name + `: (\S+)`).FindSubmatch(credentials)[1])
	}
	token := ""
	post := func(path string, body any, answer any) {
		c.Helper()
		text, err := json.Marshal(body)
		if err != nil {
			c.Fatal(err)
		}
		request, err := http.NewRequestWithContext(c.Context(), http.MethodPost, c.url+path, bytes.NewReader(text))
		if err != nil {
			c.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			c.Fatal(err)
		}
		defer response.Body.Close()
		if err := json.NewDecoder(response.Body).Decode(answer); err != nil || response.StatusCode >= http.StatusBadRequest {
			c.Fatalf("%s: %d %v", path, response.StatusCode, err)
		}
	}
	var login struct{ Token string }
	post("/v1/watchers/login", map[string]any{"machine_id": field("login"), "password": field("password"), "scenarios": []string{}}, &login)
	token = login.Token
	now := time.Now().UTC().Format(time.RFC3339)
	post("/v1/alerts", []map[string]any{{
		"scenario": "test/guess", "scenario_hash": "", "scenario_version": "", "message": "test", "events_count": 1, "start_at": now, "stop_at": now,
		"capacity": 1, "leakspeed": "1s", "simulated": false, "remediation": true, "events": []any{},
		"source": map[string]string{"scope": scope, "value": value},
	}}, &[]string{})
}

// source is a node whose blocks come from a CrowdSec.
type source struct {
	*testing.T
	node  *testnode.Node
	token string // of the name crowdsec
}

func startSource(t *testing.T) *source {
	t.Helper()
	s := &source{T: t, node: testnode.Start(t)}
	var token struct{ Secret string }
	made := s.node.Do(t, http.MethodPost, "/v1/tokens", `{"name":"crowdsec","scopes":["operate"]}`, http.StatusCreated)
	if err := json.Unmarshal(made, &token); err != nil {
		t.Fatal(err)
	}
	s.token = token.Secret
	return s
}

// await waits until the active blocks are those wanted, as "pattern reason author" in
// any order, and returns them.
func (s *source) await(wanted ...string) map[string]listed {
	s.Helper()
	for deadline := time.Now().Add(maxWait); ; time.Sleep(50 * time.Millisecond) {
		var page struct{ Items []listed }
		if err := json.Unmarshal(s.node.Do(s.T, http.MethodGet, "/v1/blocks", "", http.StatusOK), &page); err != nil {
			s.Fatal(err)
		}
		found := map[string]listed{}
		for _, b := range page.Items {
			found[strings.Join([]string{b.Pattern, b.Reason, b.Author}, " ")] = b
		}
		missing := len(found) != len(wanted)
		for _, w := range wanted {
			missing = missing || found[w].Pattern == ""
		}
		if !missing {
			return found
		}
		if time.Now().After(deadline) {
			s.Fatalf("the blocks are %v, want %v", found, wanted)
		}
	}
}

// lasts fails unless a block ends within a duration and not much earlier.
func (s *source) lasts(b listed, want time.Duration) {
	s.Helper()
	if b.ExpiresAt == nil || time.Until(*b.ExpiresAt) > want || time.Until(*b.ExpiresAt) < want-10*time.Minute {
		s.Errorf("%s ends at %v, want in %s", b.Pattern, b.ExpiresAt, want)
	}
}

func TestCrowdSecAlertsBecomeBlocks(t *testing.T) {
	s := startSource(t)
	profile := configuration(t, gateway{page: "crowdsec.md", language: "yaml"}, 4)
	c := startCrowdSec(t, "key", profile+"---\nname: others\nfilters: [\"true\"]\ndecisions: [{type: ban, duration: 30m}]\nnotifications: [stint]\n")
	notification, err := os.ReadFile(repository(t, "deploy/crowdsec/stint.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c.write("notifications/stint.yaml", strings.NewReplacer("http://127.0.0.1:8081", s.node.Admin, "SECRET", s.token).Replace(string(notification)))
	plugin, err := os.ReadFile(crowdsecProgram(t, "usr/lib/crowdsec/plugins/http"))
	if err != nil {
		t.Fatal(err)
	}
	c.write("plugins/notification-http", string(plugin)) // the name that the package installs it under
	c.run()

	c.alert("Ip", "203.0.113.5")
	attacker := "ip:203.0.113.5 CrowdSec test/guess crowdsec"
	s.lasts(s.await(attacker)[attacker], 4*time.Hour)
	c.cscli("decisions", "add", "-r", "198.51.100.0/24", "-d", "2h30m", "-R", `by "hand"`)
	network := `ip:198.51.100.0/24 CrowdSec by "hand" crowdsec`
	s.lasts(s.await(attacker, network)[network], 150*time.Minute)
	c.alert("username", "alice")
	s.await(attacker, network, "username:alice CrowdSec test/guess crowdsec")

	// A longer block is not shortened, and alerts that arrive together are all kept.
	c.cscli("decisions", "add", "-i", "203.0.113.5", "-d", "1m", "-R", "again")
	c.alert("Ip", "2001:db8::1")
	c.alert("Ip", "203.0.113.7")
	six, seven := "ip:2001:db8::/64 CrowdSec test/guess crowdsec", "ip:203.0.113.7 CrowdSec test/guess crowdsec"
	all := s.await(attacker, network, "username:alice CrowdSec test/guess crowdsec", six, seven)
	s.lasts(all[attacker], 4*time.Hour)
}

func TestCustomBouncerMakesBlocksOfCrowdSecDecisions(t *testing.T) {
	s := startSource(t)
	t.Setenv("STINT", fmt.Sprintf("%s --url %s --token-file %s", testnode.AdminProgram(t), s.node.Admin, write(t, "token", s.token+"\n")))
	c := startCrowdSec(t, "key", "name: none\nfilters: [\"false\"]\n").run()
	c.cscli("decisions", "add", "-i", "203.0.113.5", "-d", "4h", "-R", "by hand")
	config := strings.NewReplacer(
		"/usr/local/bin/stint-block", repository(t, "deploy/crowdsec/stint-block"), "http://127.0.0.1:8080/", c.url+"/", "SECRET", "key",
		"update_frequency: 10s", "update_frequency: 1s\ncache_retention_duration: 1s\nprometheus: {enabled: false}",
	).Replace(configuration(t, gateway{page: "crowdsec.md", language: "yaml"}, 5))
	startProcess(t, crowdsecProgram(t, "usr/bin/crowdsec-custom-bouncer"), "-c", write(t, "config.yaml", config))

	attacker, network := "ip:203.0.113.5 CrowdSec by hand crowdsec", "ip:198.51.100.0/24 CrowdSec by hand crowdsec"
	s.lasts(s.await(attacker)[attacker], 4*time.Hour)
	c.cscli("decisions", "add", "-r", "198.51.100.0/24", "-d", "2h", "-R", "by hand")
	s.lasts(s.await(attacker, network)[network], 2*time.Hour)
	s.node.Do(t, http.MethodPost, "/v1/blocks", `{"pattern":"ip:203.0.113.6","reason":"by hand"}`, http.StatusCreated)
	operators := "ip:203.0.113.6 by hand " + s.author("ip:203.0.113.6")
	s.node.Do(t, http.MethodPost, "/v1/blocks", `{"pattern":"ip:203.0.113.5","reason":"of a scope","scope":"login"}`, http.StatusCreated)
	ofScope := "ip:203.0.113.5 of a scope " + strings.TrimPrefix(operators, "ip:203.0.113.6 by hand ")
	c.cscli("decisions", "delete", "-i", "203.0.113.5")
	s.await(network, operators, ofScope)
	s.endBlock("ip:203.0.113.5")
	c.cscli("decisions", "add", "-i", "203.0.113.6", "-d", "1h", "-R", "by hand")
	c.cscli("decisions", "delete", "-r", "198.51.100.0/24")
	s.await(operators)
	c.cscli("decisions", "delete", "-i", "203.0.113.6")
	c.cscli("decisions", "add", "-i", "203.0.113.7", "-d", "1h", "-R", "by hand")
	kept := "ip:203.0.113.7 CrowdSec by hand crowdsec"
	s.await(operators, kept)
	s.node.Do(t, http.MethodPost, "/v1/blocks", `{"pattern":"ip:203.0.113.7","reason":"CrowdSec by hand","on_conflict":"extend"}`, http.StatusOK)
	c.cscli("decisions", "delete", "-i", "203.0.113.7")
	c.cscli("decisions", "add", "-i", "203.0.113.8", "-d", "1h", "-R", "by hand")
	kept = "ip:203.0.113.7 CrowdSec by hand " + strings.TrimPrefix(operators, "ip:203.0.113.6 by hand ") // which holds it longest
	s.await(operators, kept, "ip:203.0.113.8 CrowdSec by hand crowdsec")
	c.cscli("decisions", "delete", "-i", "203.0.113.8")
	s.await(operators, kept)
	for typed, written := range map[string]string{"2001:DB8:1::/48": "ip:2001:db8:1::/48", "203.0.113.9/32": "ip:203.0.113.9"} {
		c.cscli("decisions", "add", "-r", typed, "-d", "1h", "-R", "by hand")
		s.await(operators, kept, written+" CrowdSec by hand crowdsec")
		c.cscli("decisions", "delete", "-r", typed)
		s.await(operators, kept)
	}
}

// endBlock ends the only active block of a pattern.
func (s *source) endBlock(pattern string) {
	s.Helper()
	var page struct {
		Items []struct{ ID, Pattern string }
	}
	if err := json.Unmarshal(s.node.Do(s.T, http.MethodGet, "/v1/blocks", "", http.StatusOK), &page); err != nil {
		s.Fatal(err)
	}
	for _, b := range page.Items {
		if b.Pattern == pattern {
			s.node.Do(s.T, http.MethodDelete, "/v1/blocks/"+b.ID, "", http.StatusOK)
		}
	}
}

// author returns who added the active block of a pattern.
func (s *source) author(pattern string) string {
	s.Helper()
	var page struct{ Items []listed }
	if err := json.Unmarshal(s.node.Do(s.T, http.MethodGet, "/v1/blocks", "", http.StatusOK), &page); err != nil {
		s.Fatal(err)
	}
	for _, b := range page.Items {
		if b.Pattern == pattern {
			return b.Author
		}
	}
	s.Fatalf("%s is not blocked", pattern)
	return ""
}
