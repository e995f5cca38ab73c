package operations

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/wire"
)

func configOf(g wire.Guide) string {
	var b strings.Builder
	for _, s := range g.Steps {
		b.WriteString(s.Config)
	}
	return b.String()
}

func TestEveryGatewayHasAConfigurationForThisInstallation(t *testing.T) {
	c := &Connect{CheckURL: "https://192.0.2.7:9443", TokenHeader: "X-Gate", NeedsToken: true}
	token := &wire.CreatedToken{Token: wire.Token{Name: "edge"}, Secret: "stint_check_secret"}
	all := c.Gateways()
	if len(all) < 9 {
		t.Fatalf("got %v", all)
	}
	for _, gateway := range all {
		plain := c.guide(gateway.Name, "", nil)
		if gateway.Title == "" || configOf(plain) == "" {
			t.Errorf("%s: got %+v", gateway.Name, plain)
		}
		if !strings.Contains(readPage(gateway.Name), "127.0.0.1:8080") {
			continue // it does not ask the check listener
		}
		config := configOf(c.guide(gateway.Name, "", token))
		for _, old := range []string{"127.0.0.1:8080", "X-Stint-Token", "x-stint-token", "http://192.0.2.7", "http://stint/"} {
			if strings.Contains(config, old) {
				t.Errorf("the guide of %s still has %q:\n%s", gateway.Name, old, config)
			}
		}
		if !strings.Contains(config, "192.0.2.7:9443") || !strings.Contains(config, token.Secret) {
			t.Errorf("the guide of %s lacks the address or the token:\n%s", gateway.Name, config)
		}
	}
}

// A guide asks for what the gateway has to send, and of one that sends chosen headers says how.
func TestGuideSaysWhatTheGatewayHasToSend(t *testing.T) {
	asked := []conditions.Attribute{conditions.Path, conditions.Agent, conditions.Country, conditions.Bot, conditions.Verified, conditions.Query("q"), conditions.Header("X-Client"), conditions.Cookie("cart")}
	c := &Connect{CheckURL: "http://127.0.0.1:8080", TokenHeader: "X-Stint-Token", Asked: func() []conditions.Attribute { return asked }}
	for name, isChosen := range map[string]bool{"nginx": false, "caddy": false, "traefik": false, "haproxy": true, "envoy": true} {
		g := c.guide(name, "", nil)
		if got := strings.Join(g.Needs, " "); got != "path agent query:q header:x-client cookie:cart" {
			t.Errorf("%s needs %s", name, got)
		}
		says := false
		for _, step := range g.Steps {
			says = says || strings.Contains(step.Text, "`sends=header:x-client,cookie:cart`")
		}
		if says != isChosen {
			t.Errorf("the guide of %s says what to send: %v", name, says)
		}
	}
}

// The script of HAProxy sends the header that its environment names.
func TestHAProxyGuideNamesTheTokenHeader(t *testing.T) {
	for header, want := range map[string]string{
		"X-Gate":        "global\n    setenv STINT_TOKEN_HEADER X-Gate\n    lua-load /etc/haproxy/stint.lua\n",
		"X-Stint-Token": "global\n    lua-load /etc/haproxy/stint.lua\n",
	} {
		c := &Connect{CheckURL: "http://127.0.0.1:8080", TokenHeader: header, NeedsToken: true}
		token := &wire.CreatedToken{Token: wire.Token{Name: "edge"}, Secret: "stint_check_secret"}
		if config := configOf(c.guide("haproxy", "", token)); !strings.Contains(config, want) {
			t.Errorf("%s: the guide lacks %q:\n%s", header, want, config)
		}
	}
}

// If the installation has the address that docs/doors assumes, the guides equal those pages.
func TestGatewayConfigurationsMatchTheDocs(t *testing.T) {
	c := &Connect{CheckURL: "http://127.0.0.1:8080", TokenHeader: "X-Stint-Token"}
	for _, gateway := range c.Gateways() {
		for _, s := range c.guide(gateway.Name, "", nil).Steps {
			if s.Config != "" && !strings.Contains(readPage(gateway.Name), "\n"+s.Config+"```") {
				t.Errorf("docs/doors/%s.md lacks the configuration\n%s", gateway.Name, s.Config)
			}
		}
	}
}

func TestConnectUsesTheCallersHostForAListenerOnEveryAddress(t *testing.T) {
	for host, want := range map[string]string{
		"stint.example.org": "http://stint.example.org:8080", "stint.example.org:8081": "http://stint.example.org:8080", "[2001:db8::1]:8081": "http://[2001:db8::1]:8080", "2001:db8::1": "http://[2001:db8::1]:8080",
		"": "http://[::]:8080", "a b;\n": "http://[::]:8080", "x\"; return 200; #": "http://[::]:8080",
	} {
		c := &Connect{CheckURL: "http://[::]:8080"}
		if got := c.checkURL(host).String(); got != want {
			t.Errorf("%q: got %s, want %s", host, got, want)
		}
	}
}

// stepsText returns all texts and configurations of a guide.
func stepsText(g wire.Guide) string {
	var b strings.Builder
	for _, s := range g.Steps {
		b.WriteString(s.Text + "\n" + s.Config + "\n")
	}
	return b.String()
}

func TestGuideWithATokenAsksForNoOther(t *testing.T) {
	c := &Connect{CheckURL: "http://127.0.0.1:8080", TokenHeader: "X-Stint-Token"}
	token := &wire.CreatedToken{Token: wire.Token{Name: "edge-2"}, Secret: "stint_operate_secret"}
	for _, gateway := range c.Gateways() {
		if text := stepsText(c.guide(gateway.Name, "", token)); strings.Contains(text, "stint-admin token add") {
			t.Errorf("the guide of %s creates another token:\n%s", gateway.Name, text)
		}
	}
	if text := stepsText(c.guide("nftables", "", token)); !strings.Contains(text, "2. Write the secret of the token `edge-2` into `/etc/stint/firewall.token`, readable by root only.\n") {
		t.Errorf("the guide of nftables does not say where the token belongs:\n%s", text)
	}
	if text := stepsText(c.guide("fail2ban", "", token)); !strings.Contains(text, "\naction = stint[author=\"edge-2\"]\n") {
		t.Errorf("the action of fail2ban would not end the blocks of the token:\n%s", text)
	}
}

// TestGuideOfEnvoyIsComplete looks for all that Envoy's filters need: the listener, the cluster
// that they name, and the token in each way to ask.
func TestGuideOfEnvoyIsComplete(t *testing.T) {
	c := &Connect{CheckURL: "http://127.0.0.1:8080", TokenHeader: "X-Stint-Token"}
	g := c.guide("envoy", "", &wire.CreatedToken{Token: wire.Token{Name: "edge"}, Secret: "stint_check_secret"})
	text := stepsText(g)
	for _, want := range []string{"--grpc-listen", "cluster_name: stint\n", "Rate limit service:\n", "External authorization:\n", "External authorization over HTTP:\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the guide of Envoy lacks %q:\n%s", want, text)
		}
	}
	if found := strings.Count(configOf(g), "stint_check_secret"); found != 3 {
		t.Errorf("the token is in %d configurations, want 3:\n%s", found, configOf(g))
	}
}

// Where signatures matter and no host is ours, every guide says what is missing.
func TestGuideAsksForTheHostsOfSignatures(t *testing.T) {
	const text = "`--site-hosts`"
	for _, step := range []struct {
		asked    []conditions.Attribute
		hasHosts bool
		says     bool
	}{{[]conditions.Attribute{conditions.Path}, false, false}, {conditions.SignatureHeaders(), false, true}, {conditions.SignatureHeaders(), true, false}} {
		c := &Connect{CheckURL: "http://127.0.0.1:8080", TokenHeader: "X-Stint-Token", HasSiteHosts: step.hasHosts, Asked: func() []conditions.Attribute { return step.asked }}
		for _, name := range []string{"nginx", "envoy", "node"} {
			if got := strings.Contains(stepsText(c.guide(name, "", nil)), text); got != step.says {
				t.Errorf("%v, with hosts %v: the guide of %s says %s: %v", step.asked, step.hasHosts, name, text, got)
			}
		}
	}
}

// TestGuideWarnsOfAGatewayWithoutPaths on the pages of the gateways that it may be.
func TestGuideWarnsOfAGatewayWithoutPaths(t *testing.T) {
	policy := ""
	c := &Connect{CheckURL: "http://127.0.0.1:8080", TokenHeader: "X-Stint-Token", Pathless: func() (string, time.Time) { return policy, time.Date(2026, 11, 20, 14, 3, 14, 0, time.UTC) }}
	const warning = "at `2026-11-20 14:03:14 UTC`. The policy `traps` has paths and never applies"
	if text := stepsText(c.guide("nginx", "", nil)); strings.Contains(text, warning) {
		t.Errorf("the guide warns without a cause:\n%s", text)
	}
	policy = "traps"
	if text := stepsText(c.guide("nginx", "", nil)); !strings.Contains(text, warning) {
		t.Errorf("the guide of nginx does not warn:\n%s", text)
	}
	if text := stepsText(c.guide("crowdsec", "", nil)); strings.Contains(text, warning) {
		t.Errorf("the guide of a bouncer warns:\n%s", text)
	}
}

// TestGuideSaysWhenAGatewayAsked on the pages of the gateways that ask by /v1/forward.
func TestGuideSaysWhenAGatewayAsked(t *testing.T) {
	var at time.Time
	c := &Connect{CheckURL: "http://127.0.0.1:8080", TokenHeader: "X-Stint-Token", LastAsked: func() time.Time { return at }}
	if text := stepsText(c.guide("nginx", "", nil)); !strings.Contains(text, "No gateway has asked this node") {
		t.Errorf("the guide does not say that no gateway has asked:\n%s", text)
	}
	at = time.Date(2026, 11, 20, 14, 3, 14, 0, time.UTC)
	if text := stepsText(c.guide("nginx", "", nil)); !strings.Contains(text, "`2026-11-20 14:03:14 UTC`") {
		t.Errorf("the guide does not say when a gateway asked:\n%s", text)
	}
	if text := stepsText(c.guide("crowdsec", "", nil)); strings.Contains(text, "has asked") || strings.Contains(text, "last asked") {
		t.Errorf("the guide of a bouncer says when gateways asked:\n%s", text)
	}
}

// TestGuideOfAccessLogsChargesNothingTwice: where a gateway asks, what is printed sends no checks.
func TestGuideOfAccessLogsChargesNothingTwice(t *testing.T) {
	var at time.Time
	c := &Connect{CheckURL: "http://192.0.2.7:9080", TokenHeader: "X-Stint-Token", LastAsked: func() time.Time { return at }}
	commands := func() (plain, safe int) {
		for _, s := range c.guide("follow", "", &wire.CreatedToken{Secret: "stint_check_secret"}).Steps {
			if strings.Contains(s.Config, "stint-admin follow /var/log/nginx/access.log --check-url http://192.0.2.7:9080") {
				if strings.Contains(s.Config, "--outcomes-only") {
					safe++
				} else {
					plain++
				}
			}
		}
		return plain, safe
	}
	if plain, safe := commands(); plain != 1 || safe != 1 {
		t.Errorf("without a gateway: got %d commands that check and %d that do not", plain, safe)
	}
	at = time.Date(2026, 11, 20, 14, 3, 14, 0, time.UTC)
	if plain, safe := commands(); plain != 0 || safe != 1 {
		t.Errorf("beside a gateway: got %d commands that check and %d that do not", plain, safe)
	}
	if text := stepsText(c.guide("follow", "", nil)); !strings.Contains(text, "`2026-11-20 14:03:14 UTC`. Leave `--outcomes-only` out only") {
		t.Errorf("the guide does not say that a gateway asks:\n%s", text)
	}
}

// TestGuidesOfGatewaysSayHowAnswersAreSeen, at the address of this installation.
func TestGuidesOfGatewaysSayHowAnswersAreSeen(t *testing.T) {
	c := &Connect{CheckURL: "http://192.0.2.7:9080", TokenHeader: "X-Stint-Token"}
	for _, name := range []string{"nginx", "caddy", "haproxy", "traefik", "envoy"} {
		if text := stepsText(c.guide(name, "", nil)); !strings.Contains(text, " --check-url http://192.0.2.7:9080 --outcomes-only`") {
			t.Errorf("the guide of %s does not say how to follow the log:\n%s", name, text)
		}
	}
}

// TestGuideLeavesOutWhatIsDone: a policy that enforces, and proxies that are trusted.
func TestGuideLeavesOutWhatIsDone(t *testing.T) {
	isCounting, trusted := true, ""
	c := &Connect{CheckURL: "http://127.0.0.1:8080", TokenHeader: "X-Stint-Token", Counts: func() bool { return isCounting }, Trusted: func() string { return trusted }}
	for _, name := range []string{"nginx", "caddy", "haproxy", "traefik"} {
		isCounting, trusted = true, ""
		if text := stepsText(c.guide(name, "", nil)); !strings.Contains(text, "First choose what is protected") || !strings.Contains(text, "Start Stint with `--trusted-proxies") {
			t.Errorf("the guide of %s lacks what must be done first:\n%s", name, text)
		}
		isCounting, trusted = false, "192.0.2.9"
		text := stepsText(c.guide(name, "", nil))
		if strings.Contains(text, "First choose what is protected") || strings.Contains(text, "Start Stint with `--trusted-proxies") || !strings.Contains(text, "Stint trusts the proxies `192.0.2.9`: the address of ") {
			t.Errorf("the guide of %s asks for what is done:\n%s", name, text)
		}
	}
}

// TestGuideTextsArePlain: a link names its page, and no mark of the pages is left.
func TestGuideTextsArePlain(t *testing.T) {
	c := &Connect{CheckURL: "http://127.0.0.1:8080", TokenHeader: "X-Stint-Token"}
	for _, g := range c.Gateways() {
		for _, step := range c.guide(g.Name, "", nil).Steps {
			if strings.Contains(step.Text, "](") || strings.Contains(step.Text, "**") || strings.Contains(step.Text, " *E") {
				t.Errorf("%s: %s", g.Name, step.Text)
			}
		}
	}
	text := stepsText(c.guide("follow", "", nil))
	for _, want := range []string{"asked or where blocks are enforced: `docs/doors/nftables.md`, ", "on the page Exemptions, or"} {
		if !strings.Contains(text, want) {
			t.Errorf("the guide of access logs lacks %q:\n%s", want, text)
		}
	}
	if text := stepsText(c.guide("nginx", "", nil)); !strings.Contains(text, "challenged (`docs/CHALLENGE.md`)") || !strings.Contains(text, "Which locations are protected (`docs/doors/nginx.md`)") {
		t.Errorf("the guide of nginx does not name the pages:\n%s", text)
	}
}
