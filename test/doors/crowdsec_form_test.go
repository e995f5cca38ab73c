package doors

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stint-dev/stint/test/servers"
)

// crowdSec is a real CrowdSec's local API.
type crowdSec struct {
	*testing.T
	dir, url string
}

// startCrowdSec starts CrowdSec's local API with the token of a bouncer, and profiles
// that make decisions of alerts.
func startCrowdSec(t *testing.T, token, profiles string) *crowdSec {
	t.Helper()
	dir, listen := t.TempDir(), servers.FreeAddress(t)
	c := &crowdSec{t, dir, "http://" + listen}
	for name, text := range map[string]string{
		"simulation.yaml": "", "index.json": "{}", "profiles.yaml": profiles, "config.yaml": fmt.Sprintf(`
common: {daemonize: false, log_media: stdout, log_level: warning, working_dir: %[1]s}
config_paths: {config_dir: %[1]s, data_dir: %[1]s, hub_dir: %[1]s, index_path: %[1]s/index.json, simulation_path: %[1]s/simulation.yaml,
  notification_dir: %[1]s/notifications, plugin_dir: %[1]s/plugins}
cscli: {output: human}
db_config: {type: sqlite, db_path: %[1]s/crowdsec.db}
plugin_config: {user: "", group: ""}
api:
  client: {credentials_path: %[1]s/credentials.yaml}
  server: {listen_uri: %[2]s, profiles_path: %[1]s/profiles.yaml}
prometheus: {enabled: false}
`, dir, listen),
	} {
		c.write(name, text)
	}
	c.cscli("machines", "add", "test", "--auto", "--force", "-f", filepath.Join(dir, "credentials.yaml"))
	c.cscli("bouncers", "add", "test", "-k", token)
	return c
}

// run starts the process.
func (c *crowdSec) run() *crowdSec {
	c.Helper()
	startProcess(c.T, crowdsecProgram(c.T, "usr/bin/crowdsec"), "-c", filepath.Join(c.dir, "config.yaml"), "-no-cs")
	(&site{T: c.T, url: c.url}).await()
	return c
}

func (c *crowdSec) write(name, text string) {
	c.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		c.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		c.Fatal(err)
	}
}

func (c *crowdSec) cscli(args ...string) {
	c.Helper()
	all := append([]string{"-c", filepath.Join(c.dir, "config.yaml")}, args...)
	if text, err := exec.CommandContext(c.Context(), crowdsecProgram(c.T, "usr/bin/cscli"), all...).CombinedOutput(); err != nil {
		c.Fatalf("cscli %v: %v: %s", args, err, text)
	}
}

// ownParts are what each API fills with its own, and uuid, which CrowdSec sends from
// 1.5 on.
var ownParts = regexp.MustCompile(`"uuid":"[^"]*",|"duration":"[^"]*"|"id":\d+|"origin":"[^"]*"`)

func TestCrowdSecDoorAnswersHaveTheFormatOfCrowdSec(t *testing.T) {
	b := startBanned(t)
	b.add("blocks", "ip:192.0.2.1", "1h")
	crowdsec := startCrowdSec(t, b.token, "name: none\nfilters: [\"false\"]\n").run()
	crowdsec.cscli("decisions", "add", "-i", "192.0.2.1", "-d", "1h", "-R", "by hand")
	good := b.token
	for _, c := range []struct{ method, target, token string }{
		{http.MethodGet, "/v1/decisions?ip=192.0.2.2", good},
		{http.MethodGet, "/v1/decisions?ip=192.0.2.1&banned=true", good},
		{http.MethodGet, "/v1/decisions?range=192.0.2.0/30", good},
		{http.MethodGet, "/v1/decisions?scopes=ip", good},
		{http.MethodGet, "/v1/decisions?scopes=user", good},
		{http.MethodGet, "/v1/decisions?value=192.0.2.1", good},
		{http.MethodGet, "/v1/decisions?value=192.0.2.2", good},
		{http.MethodGet, "/v1/decisions?value=alice", good},
		{http.MethodGet, "/v1/decisions?value=", good},
		{http.MethodGet, "/v1/decisions?scopes=ip&value=192.0.2.1", good},
		{http.MethodGet, "/v1/decisions?scopes=ip&value=192.0.2.2", good},
		{http.MethodGet, "/v1/decisions?scopes=ip,user&value=alice", good},
		{http.MethodHead, "/v1/decisions", good},
		{http.MethodHead, "/v1/decisions/stream", good},
		{http.MethodGet, "/v1/decisions", "wrong"},
		{http.MethodGet, "/v1/decisions/stream", ""},
		{http.MethodHead, "/v1/decisions", "wrong"},
	} {
		b.token = c.token
		var forms []string
		for _, base := range []string{crowdsec.url, b.node.Check} {
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
