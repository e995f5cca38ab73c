package operations

import (
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/admin/identities"
)

func configOf(g *Guide) string {
	var b strings.Builder
	for _, s := range g.Steps {
		b.WriteString(s.Config)
	}
	return b.String()
}

func TestEveryGatewayHasAConfigurationForThisInstallation(t *testing.T) {
	c := &Connect{CheckURL: "https://192.0.2.7:9443", TokenHeader: "X-Gate", NeedsToken: true}
	token := &identities.CreatedToken{Secret: "stint_check_secret"}
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
