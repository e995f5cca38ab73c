package doors

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stint-dev/stint/test/testnode"
)

// gateway is one of the programs under test.
type gateway struct {
	name, page string // the page below docs/doors
	language   string // of its configuration
	first      int    // the minimal configuration among those of the page; the complete one follows
	// run starts the program on a configuration until the test ends.
	run func(s *site, config string)
	// down is what a client is answered under the complete configuration while Stint
	// is stopped.
	down int
	// hidesLimit says that allowed answers cannot show RateLimit.
	hidesLimit bool
}

var gateways = []gateway{
	{name: "nginx", page: "nginx.md", language: "nginx", run: runNginx, down: http.StatusOK},
	{name: "caddy", page: "caddy.md", language: "caddyfile", run: runCaddy("caddy"), down: http.StatusBadGateway},
	{name: "haproxy", page: "haproxy.md", language: "haproxy", run: runHAProxy, down: http.StatusServiceUnavailable},
}

// frameworks are what docs/doors/node.md has a program for.
var frameworks = []gateway{
	{name: "express", page: "node.md", language: "js", run: runNode("express"), down: http.StatusOK},
	{name: "express4", page: "node.md", language: "js", run: runNode("express4"), down: http.StatusOK},
	{name: "fastify", page: "node.md", language: "js", first: 2, run: runNode("express"), down: http.StatusServiceUnavailable},
	{name: "fetch", page: "node.md", language: "js", first: 4, run: runNode("express"), down: http.StatusServiceUnavailable},
}

// built is the folder of scripts/build-gateways.sh; the tests of a Caddy and a Traefik
// that Debian does not have run where it is given.
var built = flag.String("built-gateways", "", "test the gateways in this folder, which scripts/build-gateways.sh prints, and no others")

// underTest returns the gateways.
func underTest() []gateway {
	if *built == "" {
		return append(gateways[:len(gateways):len(gateways)], frameworks...)
	}
	return []gateway{
		{name: "caddy-2.11", page: "caddy.md", language: "caddyfile", run: runCaddy(filepath.Join(*built, "caddy-v2.11.9")), down: http.StatusBadGateway},
		{
			name: "traefik", page: "traefik.md", language: "yaml", run: runTraefik(filepath.Join(*built, "traefik-v3.6.12")),
			down: http.StatusInternalServerError, hidesLimit: true,
		},
	}
}

// execute runs a program until the test ends.
func execute(t *testing.T, name string, args ...string) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		for _, dir := range []string{"/usr/sbin", "/usr/local/sbin"} {
			if _, statErr := os.Stat(filepath.Join(dir, name)); statErr == nil {
				path, err = filepath.Join(dir, name), nil
			}
		}
	}
	if err != nil {
		t.Fatalf("%v: scripts/setup-tests.sh installs it", err)
	}
	var out strings.Builder
	c := exec.CommandContext(context.Background(), path, args...)
	c.Dir, c.Stdout, c.Stderr = t.TempDir(), &out, &out
	c.Env = append(os.Environ(), "HOME="+c.Dir, "XDG_DATA_HOME="+c.Dir, "XDG_CONFIG_HOME="+c.Dir)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = c.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", name, out.String())
		}
	})
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func runNginx(s *site, config string) {
	t := s.T
	t.Helper()
	dir := t.TempDir()
	config = strings.ReplaceAll(config, "/srv/www", dir)
	text := fmt.Sprintf(`daemon off; master_process off; pid %[1]s/pid; error_log stderr warn;
events {}
http {
	access_log off;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
%[2]s
}
`, dir, config)
	execute(t, "nginx", "-p", dir, "-c", write(t, "nginx.conf", text))
}

// runCaddy returns a function that runs a program of Caddy.
func runCaddy(program string) func(*site, string) {
	return func(s *site, config string) {
		s.Helper()
		if strings.HasPrefix(config, "{") {
			config = strings.Replace(config, "{", "{\n\tadmin off", 1)
		} else {
			config = "{\n\tadmin off\n}\n" + config
		}
		execute(s.T, program, "run", "--adapter", "caddyfile", "--config", write(s.T, "Caddyfile", config))
	}
}

func runHAProxy(s *site, config string) {
	s.Helper()
	execute(s.T, "haproxy", "-db", "-f", write(s.T, "haproxy.cfg", config))
}

// runTraefik returns a function that runs a program of Traefik on a dynamic
// configuration; its static one is the page's last where another proxy is in front.
func runTraefik(program string) func(*site, string) {
	return func(s *site, config string) {
		s.Helper()
		address := strings.TrimPrefix(s.url, "http://")
		static := "entryPoints:\n  web:\n    address: \":8000\"\n"
		if strings.Contains(config, "trustForwardHeader: true") {
			static = configuration(s.T, gateway{page: "traefik.md", language: "yaml"}, 2)
		}
		static = strings.Replace(static, ":8000", address, 1) +
			"providers:\n  file:\n    filename: " + write(s.T, "dynamic.yml", config) + "\nglobal:\n  checkNewVersion: false\n  sendAnonymousUsage: false\n"
		execute(s.T, program, "--configfile="+write(s.T, "traefik.yml", static))
		s.await()
		s.until("Traefik has read its configuration", func() bool { return s.get("/").status != http.StatusNotFound })
		// What was asked while it read is forgotten.
		for _, key := range []string{"ip:" + client, "ip:127.0.0.1"} {
			s.node.Do(s.T, http.MethodDelete, "/v1/keys?key="+key+"&policy=site", "", http.StatusOK)
		}
		s.app.forget()
	}
}

// answer is what the programs of docs/doors/node.md answer with in the tests, in the
// place of a constant: it reports each request to the application.
const answer = `
const answer = async (request) => {
  let size = 0
  if (typeof request.arrayBuffer === 'function') size = (await request.arrayBuffer()).byteLength
  else if (request.raw) size = (request.body ?? '').length
  else for await (const part of request) size += part.length
  const { pathname, search } = new URL(request.url, 'http://localhost')
  return await (await globalThis.fetch('%s' + pathname + search, { method: request.method, body: size > 0 ? 'x'.repeat(size) : undefined })).text()
}
`

// What makes a Stint in the programs, without options and with some in the same line.
var (
	plainStint = regexp.MustCompile(`new Stint\('([^']*)'\)`)
	stintWith  = regexp.MustCompile(`new Stint\('([^']*)', \{ `)
)

// runNode returns a function that runs a program of docs/doors/node.md, with
// express under the name of another package of clients/node.
func runNode(express string) func(*site, string) {
	return func(s *site, config string) {
		s.Helper()
		dir, modules := s.TempDir(), repository(s.T, "clients/node/node_modules")
		if err := os.MkdirAll(filepath.Join(dir, "node_modules", "@stint-dev"), 0o700); err != nil {
			s.Fatal(err)
		}
		for name, target := range map[string]string{
			"@stint-dev/client": repository(s.T, "clients/node"), "express": filepath.Join(modules, express), "fastify": filepath.Join(modules, "fastify"),
			"hono": filepath.Join(modules, "hono"), "@hono": filepath.Join(modules, "@hono"),
		} {
			if _, err := os.Stat(target); err != nil {
				s.Fatalf("%v: scripts/setup-tests.sh installs it", err)
			}
			if err := os.Symlink(target, filepath.Join(dir, "node_modules", name)); err != nil {
				s.Fatal(err)
			}
		}
		config = strings.NewReplacer(
			"c.text('Hello')", "c.text(await answer(c.req.raw))",
			"'Hello'", "await answer(request)",
		).Replace(config)
		if !s.asPrinted { // a busy machine must not look like an outage of Stint
			config = strings.ReplaceAll(config, "timeout: 500,", "timeout: 60_000,")
			config = stintWith.ReplaceAllString(config, "new Stint('$1', { timeout: 60_000, ")
			config = plainStint.ReplaceAllString(config, "new Stint('$1', { timeout: 60_000 })")
		}
		path := filepath.Join(dir, "program.mjs")
		if err := os.WriteFile(path, []byte(config+fmt.Sprintf(answer, s.at)), 0o600); err != nil {
			s.Fatal(err)
		}
		execute(s.T, "node", path)
	}
}

func TestHAProxySendsTheTokenInAnotherHeader(t *testing.T) {
	s := &site{T: t, node: testnode.Start(t, "--trusted-proxies", "127.0.0.1", "--check-auth", "token", "--forward-token-header", "X-Gate"), app: new(application)}
	s.put("site", `{"match":["ip:*"],"rules":["3/1d"]}`)
	s.program(runHAProxy, strings.NewReplacer(
		"lua-load", "setenv STINT_TOKEN_HEADER X-Gate\n    lua-load",
		"set-header X-Stint-Token none", "set-header X-Gate "+s.token("check"),
		"del-header X-Stint-Token", "del-header X-Gate",
	).Replace(configuration(t, gateways[2], 0)))
	for range 3 {
		s.expect("within the limit", s.get("/", "X-Gate: of the client"), http.StatusOK)
	}
	s.expect("beyond it", s.get("/", "X-Gate: of the client"), http.StatusTooManyRequests)
}

func TestHAProxyNormalizesLongPathsBeforeTruncating(t *testing.T) {
	s := start(t, gateways[2], 0)
	s.put("trap", `{"match":["ip:*"],"rules":["0/1s"],"when":{"path":["/.env*"]}}`)
	long := "/" + strings.Repeat("./", 4500)
	s.expect("a padded path", s.get(long+"x/%2e%2e/.env"), http.StatusTooManyRequests)
	s.expect("another path", s.get(long+".environment/%2e./page"), http.StatusOK)
	// Whether it leads to /page or to what is below .environment depends on the application.
	s.expect("a padded path with a slash as %2F", s.get(long+".environment%2f..%2fpage"), http.StatusServiceUnavailable)
}

// A node that hangs accepts connections, since the kernel does.
func TestCaddyDoesNotWaitForANodeThatHangs(t *testing.T) {
	s := &site{T: t, node: direct(t).node, app: new(application)}
	// A time of its own, so that the test does not wait as long as others must.
	s.program(runCaddy("caddy"), strings.Replace(configuration(t, gateways[1], 1), "response_header_timeout 500ms", "response_header_timeout 2s", 1))
	s.node.Freeze(t)
	s.expect("while the node hangs", s.get("/"), http.StatusGatewayTimeout)
}
