package doors

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// startCrowdSec starts CrowdSec's local API with the token of a bouncer and one
// decision, and returns its URL.
func startCrowdSec(t *testing.T, token, address string) string {
	t.Helper()
	dir, listen := t.TempDir(), freeAddress(t)
	config := filepath.Join(dir, "config.yaml")
	for name, text := range map[string]string{
		"simulation.yaml": "", "index.json": "{}", "profiles.yaml": "name: none\nfilters: [\"false\"]\n", "config.yaml": fmt.Sprintf(`
common: {daemonize: false, log_media: stdout, log_level: warning, working_dir: %[1]s}
config_paths: {config_dir: %[1]s, data_dir: %[1]s, hub_dir: %[1]s, index_path: %[1]s/index.json, simulation_path: %[1]s/simulation.yaml}
cscli: {output: human}
db_config: {type: sqlite, db_path: %[1]s/crowdsec.db}
api:
  client: {credentials_path: %[1]s/credentials.yaml}
  server: {listen_uri: %[2]s, profiles_path: %[1]s/profiles.yaml}
prometheus: {enabled: false}
`, dir, listen),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cscli := func(args ...string) {
		t.Helper()
		all := append([]string{"-c", config}, args...)
		if text, err := exec.CommandContext(t.Context(), crowdsecProgram(t, "usr/bin/cscli"), all...).CombinedOutput(); err != nil {
			t.Fatalf("cscli %v: %v: %s", args, err, text)
		}
	}
	cscli("machines", "add", "test", "--auto", "--force", "-f", filepath.Join(dir, "credentials.yaml"))
	cscli("bouncers", "add", "test", "-k", token)
	startProcess(t, crowdsecProgram(t, "usr/bin/crowdsec"), "-c", config, "-no-cs")
	(&site{T: t, url: "http://" + listen}).await()
	cscli("decisions", "add", "-i", address, "-d", "1h", "-R", "by hand")
	return "http://" + listen
}

// ownParts are what each API fills with its own, and uuid, which CrowdSec sends from
// 1.5 on.
var ownParts = regexp.MustCompile(`"uuid":"[^"]*",|"duration":"[^"]*"|"id":\d+|"origin":"[^"]*"`)

func TestTheAnswersHaveTheFormOfCrowdSecs(t *testing.T) {
	b := startBanned(t)
	b.add("blocks", "ip:192.0.2.1", "1h")
	crowdsec := startCrowdSec(t, b.token, "192.0.2.1")
	good := b.token
	for _, c := range []struct{ method, target, token string }{
		{http.MethodGet, "/v1/decisions?ip=192.0.2.2", good},
		{http.MethodGet, "/v1/decisions?ip=192.0.2.1&banned=true", good},
		{http.MethodGet, "/v1/decisions?range=192.0.2.0/30", good},
		{http.MethodGet, "/v1/decisions?scopes=ip", good},
		{http.MethodGet, "/v1/decisions?scopes=user", good},
		{http.MethodHead, "/v1/decisions", good},
		{http.MethodHead, "/v1/decisions/stream", good},
		{http.MethodGet, "/v1/decisions", "wrong"},
		{http.MethodGet, "/v1/decisions/stream", ""},
		{http.MethodHead, "/v1/decisions", "wrong"},
	} {
		b.token = c.token
		var forms []string
		for _, base := range []string{crowdsec, b.node.Check} {
			r := b.ask(base, c.method, c.target, "test/v1", "")
			media := r.header.Get("Content-Type")
			if c.method == http.MethodHead {
				media = "" // CrowdSec's is text/plain without a body
			}
			forms = append(forms, fmt.Sprintf("%d %s %q", r.status, media, ownParts.ReplaceAllString(r.body, "")))
		}
		if forms[0] != forms[1] {
			t.Errorf("%s %s: CrowdSec answers %s, Stint %s", c.method, c.target, forms[0], forms[1])
		}
	}
}
