package doors

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// decisions returns what a bouncer is answered, as "type value".
func (b *banned) decisions(target, agent string) string {
	b.Helper()
	return b.decisionsOf(b.node.Check, target, agent)
}

func (b *banned) decisionsOf(base, target, agent string) string {
	b.Helper()
	r := b.ask(base, http.MethodGet, target, agent, "192.0.2.200")
	type decision struct{ Type, Value string }
	var list struct{ New, Deleted []decision }
	into := any(&list)
	if !strings.Contains(target, "/stream") {
		into = &list.New
	}
	if err := json.Unmarshal([]byte(r.body), into); err != nil || r.status != http.StatusOK {
		b.Fatalf("%d %s: %v", r.status, r.body, err)
	}
	var all []string
	for _, d := range list.New {
		all = append(all, "+"+d.Type+" "+d.Value)
	}
	for _, d := range list.Deleted {
		all = append(all, "-"+d.Type+" "+d.Value)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func (b *banned) expect(what, got, want string) {
	b.Helper()
	if got != want {
		b.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// The User-Agents of bouncers.
const (
	agentNginx    = "crowdsec-nginx-bouncer/v1.1.3"
	agentTraefik  = "Crowdsec-Bouncer-Traefik-Plugin/1.4.5"
	agentFirewall = "crowdsec-firewall-bouncer/v0.0.25-debian-pragmatic"
)

// Blocks that challenge are captchas for bouncers that show some: by type and by token, or since they ask
// for them by name. Nobody else is sent any.
func TestOnlyBouncersThatShowCaptchasAreSentChallenges(t *testing.T) {
	b := startBanned(t, "--trusted-proxies", "127.0.0.1")
	b.add("blocks", "ip:192.0.2.1", "1h")
	challenge := b.node.AddEntry(t, "blocks", `{"pattern":"ip:198.51.100.0/24","action":"challenge","reason":"scraping","expires_in":"1h"}`)
	b.node.AddEntry(t, "blocks", `{"pattern":"user:alice","action":"challenge","reason":"scraping","expires_in":"1h"}`)
	const stream, ofAddress = "/v1/decisions/stream?startup=true", "/v1/decisions?ip=198.51.100.7"
	plain, captcha := b.token, b.newToken("captcha")

	for _, c := range []struct{ name, token, agent string }{
		{"a plain token", plain, agentNginx}, {"Traefik's plugin with a plain token", plain, agentTraefik},
		{"a firewall, whatever its token says", captcha, agentFirewall}, {"an unknown type, whatever its token says", captcha, "test/v1"}, {"no type", captcha, ""},
		{"a type that begins like one", captcha, agentNginx[:len("crowdsec-nginx-bouncer")] + "-of-mine/v1"},
	} {
		b.token = c.token
		b.expect(c.name+", stream", b.decisions(stream, c.agent), "+ban 192.0.2.1")
		b.expect(c.name+", live", b.decisions(ofAddress, c.agent), "")
		b.expect(c.name+", all", b.decisions("/v1/decisions", c.agent), "+ban 192.0.2.1")
		b.expect(c.name+", a key", b.decisions("/v1/decisions?scope=user&value=alice", c.agent), "")
		b.expect(c.name+", a range", b.decisions("/v1/decisions?range=198.51.100.0/25", c.agent), "")
	}
	b.token = captcha
	for _, agent := range []string{agentNginx, agentTraefik} {
		b.expect(agent+", stream", b.decisions(stream, agent), "+ban 192.0.2.1, +captcha 198.51.100.0/24")
		b.expect(agent+", live", b.decisions(ofAddress, agent), "+captcha 198.51.100.0/24")
		b.expect(agent+", a key", b.decisions("/v1/decisions?scope=user&value=alice", agent), "+captcha alice")
		b.expect(agent+", a range", b.decisions("/v1/decisions?range=198.51.100.0/25", agent), "+captcha 198.51.100.0/24")
	}
	b.expect("bans only", b.decisions(stream+"&type=ban", agentNginx), "+ban 192.0.2.1")
	b.token = plain
	b.expect("who asks for captchas by name", b.decisions(stream+"&type=captcha", "test/v2"), "+captcha 198.51.100.0/24")
	b.expect("who asks for captchas by name, live", b.decisions(ofAddress+"&type=Captcha", "test/v2"), "+captcha 198.51.100.0/24")
	b.expect("who asks for another type", b.decisions(stream+"&type=throttle", "test/v3"), "")

	// A ban takes the place of the captchas inside it.
	b.token = captcha
	const changes = "/v1/decisions/stream?startup=false"
	block := b.add("blocks", "ip:198.51.100.0/23", "1h")
	b.expect("banned too", b.decisions(changes, agentNginx), "+ban 198.51.100.0/23, -captcha 198.51.100.0/24")
	b.expect("banned too, live", b.decisions(ofAddress, agentNginx), "+ban 198.51.100.0/23")
	b.end("blocks", block)
	b.expect("the ban has ended", b.decisions(changes, agentNginx), "+captcha 198.51.100.0/24, -ban 198.51.100.0/23")
	b.end("blocks", challenge)
	b.expect("the challenge has ended", b.decisions(changes, agentNginx), "-captcha 198.51.100.0/24")

	var listed struct {
		Items []struct {
			Type, Warning string
			Captchas      bool
		}
	}
	if err := json.Unmarshal(b.node.Do(t, http.MethodGet, "/v1/bouncers", "", http.StatusOK), &listed); err != nil {
		t.Fatal(err)
	}
	gets, warned := 0, 0
	for _, i := range listed.Items {
		if i.Captchas {
			gets++
		}
		if strings.Contains(i.Warning, "no block that challenges") {
			warned++
		}
	}
	if gets != 2 || warned != 4 {
		t.Errorf("%d bouncers are sent captchas and %d are warned of, want 2 and 4: %+v", gets, warned, listed.Items)
	}
}

// A firewall that runs with the token of a bouncer with captchas bans nobody for a challenge.
func TestTheCustomBouncerIsSentNoChallenge(t *testing.T) {
	b := startBanned(t)
	b.token = b.newToken("captcha")
	b.node.AddEntry(t, "blocks", `{"pattern":"ip:198.51.100.0/24","action":"challenge","reason":"scraping","expires_in":"1h"}`)
	b.add("blocks", "ip:192.0.2.1", "1h")
	p := b.startProbe()
	p.banned.add("blocks", "ip:192.0.2.2", "1h")
	p.expect("the blocks that refuse", "add 192.0.2.1 by hand", "add 192.0.2.2 by hand")
}

// CrowdSec's own API selects by type as Stint does.
func TestCrowdSecSelectsCaptchasByType(t *testing.T) {
	b := startBanned(t)
	b.add("blocks", "ip:192.0.2.1", "1h")
	b.node.AddEntry(t, "blocks", `{"pattern":"ip:192.0.2.2","action":"challenge","reason":"by hand","expires_in":"1h"}`)
	crowdsec := startCrowdSec(t, b.token, "name: none\nfilters: [\"false\"]\n").run()
	crowdsec.cscli("decisions", "add", "-i", "192.0.2.1", "-d", "1h", "-R", "by hand")
	crowdsec.cscli("decisions", "add", "-i", "192.0.2.2", "-d", "1h", "-R", "by hand", "-t", "captcha")
	for _, target := range []string{
		"/v1/decisions?type=captcha", "/v1/decisions?type=ban", "/v1/decisions?ip=192.0.2.2&type=captcha", "/v1/decisions?ip=192.0.2.1&type=captcha",
		"/v1/decisions/stream?startup=true&type=captcha", "/v1/decisions/stream?startup=true&type=ban", "/v1/decisions?type=throttle",
	} {
		if want, got := b.decisionsOf(crowdsec.url, target, "test/v1"), b.decisions(target, "test/v1"); want != got {
			t.Errorf("%s: CrowdSec answers %q, Stint %q", target, want, got)
		}
	}
}
