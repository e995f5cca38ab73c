package presets_test

import (
	"slices"
	"testing"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/presets"
	"github.com/stint-dev/stint/internal/rules"
)

// policies returns the policies of a preset as they would be stored.
func policies(t *testing.T, name string) []*rules.Policy {
	t.Helper()
	preset, found := presets.Find(name)
	if !found {
		t.Fatalf("no preset %s", name)
	}
	return preset.Policies
}

func TestEachPresetIsValidWithoutWarnings(t *testing.T) {
	for _, preset := range presets.All() {
		owners := map[string]string{}
		for _, p := range policies(t, preset.Name) {
			if err := p.Validate(); err != nil {
				t.Errorf("%s: %s: %v", preset.Name, p.Name, err)
			}
			if warnings := p.Warnings(); len(warnings) > 0 {
				t.Errorf("%s: %s: %v", preset.Name, p.Name, warnings)
			}
			for _, m := range p.Match {
				if other := owners[m.String()]; other != "" && !p.IsConditional() {
					t.Errorf("%s: the policies %s and %s both have the pattern %s", preset.Name, other, p.Name, m)
				} else if !p.IsConditional() {
					owners[m.String()] = p.Name
				}
			}
		}
	}
	if !slices.Equal(presets.Names(), []string{"api", "website", "login", "scraper", "traps", "traps-php", "ai-crawlers", "scraping", "ssh", "passes"}) {
		t.Errorf("Names: got %q", presets.Names())
	}
	if _, found := presets.Find("none"); found {
		t.Error("Find(none): got a preset")
	}
}

// A pass has one limit, which people who share it do not reach: it is refused, neither challenged nor blocked,
// and only passes are meant.
func TestPassesAreLimitedAndNotBlocked(t *testing.T) {
	all := policies(t, "passes")
	if len(all) != 1 || len(all[0].Match) != 1 || all[0].Match[0].String() != keys.Pass+":*" || all[0].OnLimit != rules.LimitOnLimit ||
		!slices.Equal(all[0].Rules.Strings(), gate.PassRules.Strings()) || all[0].Escalation != nil {
		t.Errorf("got %+v", all)
	}
}

func TestTrapsMatchOnlyScannerPaths(t *testing.T) {
	meets := func(p *rules.Policy, path string) bool {
		return p.When.Meets(conditions.NewRequest(path, "GET", "", ""))
	}
	traps, php := policies(t, "traps")[0], policies(t, "traps-php")[0]
	if !traps.IsTrap() || !php.IsTrap() {
		t.Fatal("the policies traps and traps-php are no traps")
	}
	for path, of := range map[string]*rules.Policy{
		"/.env": traps, "/app/.env.production": traps, "/.git/config": traps, "//.git//HEAD": traps, "/%2egit/config": traps,
		"/actuator/heapdump": traps, "/boaform/admin/formLogin": traps, "/x/../.aws/credentials": traps, "/cgi-bin/luci/;stok=/locale": traps,
		"/index.php": php, "/blog/wp-admin/setup-config.php": php, "/xmlrpc.php": php, "/wp-includes/wlwmanifest.xml": php, "/shell.php.suspected": php,
	} {
		if !meets(of, path) {
			t.Errorf("%s does not match the policy %s", path, of.Name)
		}
		if other := map[*rules.Policy]*rules.Policy{traps: php, php: traps}[of]; meets(other, path) {
			t.Errorf("%s also matches the policy %s", path, other.Name)
		}
	}
	for _, path := range []string{
		"/", "/robots.txt", "/favicon.ico", "/.well-known/acme-challenge/x", "/.well-known/security.txt", "/apple-touch-icon.png", "/ads.txt",
		"/sitemap.xml", "/feed", "/index.html", "/environment", "/docs/.environment", "/git/config", "/admin", "/login", "/api/v1/users",
		"/actuator/health", "/static/app.js", "/php", "/photos/wp-1.jpg", "/config.json", "/autodiscover/autodiscover.xml",
		// What operators ask of their own servers is no trap.
		"/sdk", "/v2/_catalog", "/server-status", "/manager/html", "/telescope/requests", "/solr/admin/cores", "/_cat/indices",
	} {
		if meets(traps, path) || meets(php, path) {
			t.Errorf("%s matches a trap", path)
		}
	}
}
