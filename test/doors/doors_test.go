// Package doors tests the doors with the real gateways, under the configurations of
// docs/doors as written there.
package doors

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/test/testnode"
)

func TestMain(m *testing.M) { testnode.Main(m) }

// maxWait bounds every wait for something that must happen.
const maxWait = time.Minute

// client is the address that the test's requests come from, behind a proxy in front
// of the gateway.
const client = "198.51.100.7"

// gateway is one of the programs under test.
type gateway struct {
	name, page string // the page below docs/doors
	language   string // of its configuration
	// run starts the program on a configuration until the test ends.
	run func(t *testing.T, config string)
	// down is what a client is answered under the complete configuration while Stint
	// is stopped.
	down int
}

var gateways = []gateway{
	{name: "nginx", page: "nginx.md", language: "nginx", run: runNginx, down: http.StatusOK},
	{name: "caddy", page: "caddy.md", language: "caddyfile", run: runCaddy, down: http.StatusBadGateway},
	{name: "haproxy", page: "haproxy.md", language: "haproxy", run: runHAProxy, down: http.StatusServiceUnavailable},
}

// site is a gateway in front of an application, and Stint beside it.
type site struct {
	*testing.T
	node *testnode.Node
	url  string
	app  *application
}

// application is what the gateway protects.
type application struct {
	mu       sync.Mutex
	requests []string // method and target, and the length of the body
}

// ServeHTTP answers 200 and reads the body.
func (a *application) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // what is cut off shows in its length
	a.mu.Lock()
	a.requests = append(a.requests, fmt.Sprintf("%s %s %d", r.Method, r.URL, len(body)))
	a.mu.Unlock()
	_, _ = io.WriteString(w, "the application")
}

// start starts an application, Stint and a gateway with the n-th configuration of its
// page.
func start(t *testing.T, g gateway, n int) *site {
	t.Helper()
	s := &site{T: t, node: testnode.Start(t, "--trusted-proxies", "127.0.0.1"), app: new(application)}
	return s.behind(g, n)
}

func (s *site) behind(g gateway, n int) *site {
	s.Helper()
	app := httptest.NewServer(s.app)
	s.Cleanup(app.Close)
	s.remove("site") // which every node of the tests has, for other keys
	s.put("site", `{"match":["ip:*"],"rules":["3/1d"]}`)
	config := configuration(s.T, g, n)
	address := freeAddress(s.T)
	_, port, _ := net.SplitHostPort(address)
	replace := strings.NewReplacer(
		"127.0.0.1:8080", strings.TrimPrefix(s.node.Check, "http://"),
		"127.0.0.1:3000", strings.TrimPrefix(app.URL, "http://"),
		"listen 8000", "listen "+address,
		"bind 127.0.0.1:8000", "bind "+address,
		":8000 {", "http://:"+port+" {\n\tbind 127.0.0.1",
		"/etc/haproxy/stint.lua", repository(s.T, "deploy/haproxy/stint.lua"),
	)
	g.run(s.T, replace.Replace(config))
	s.url = "http://" + address
	s.await()
	return s
}

var fenced = regexp.MustCompile("(?s)```(\\w+)\n(.*?)```")

// configuration returns the n-th configuration of a gateway's page.
func configuration(t *testing.T, g gateway, n int) string {
	t.Helper()
	page, err := os.ReadFile(repository(t, "docs/doors/"+g.page))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range fenced.FindAllStringSubmatch(string(page), -1) {
		if block[1] != g.language {
			continue
		}
		if n == 0 {
			return block[2]
		}
		n--
	}
	t.Fatalf("docs/doors/%s has no such configuration", g.page)
	return ""
}

// repository returns the absolute path of a file of the repository.
func repository(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// await waits until the gateway accepts connections.
func (s *site) await() {
	s.Helper()
	for deadline := time.Now().Add(maxWait); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(deadline) {
			s.Fatal(err)
		}
	}
}

func (s *site) put(name, policy string) {
	s.Helper()
	s.node.Do(s.T, http.MethodPut, "/v1/policies/"+name+"?confirm="+name, policy, http.StatusCreated)
}

func (s *site) remove(name string) {
	s.Helper()
	s.node.Do(s.T, http.MethodDelete, "/v1/policies/"+name+"?confirm="+name, "", http.StatusNoContent)
}

type reply struct {
	status int
	header http.Header
	body   string
}

// get sends a request through the gateway; headers are "Name: value".
func (s *site) get(target string, headers ...string) reply {
	s.Helper()
	return s.send(http.MethodGet, target, "", headers...)
}

func (s *site) send(method, target, body string, headers ...string) reply {
	s.Helper()
	request, err := http.NewRequestWithContext(context.Background(), method, s.url+target, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	request.Header.Set("X-Real-IP", client)
	request.Header.Set("X-Forwarded-For", client)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatal(err)
	}
	return reply{response.StatusCode, response.Header, string(text)}
}

// expect fails unless the reply has the status.
func (s *site) expect(what string, r reply, status int) {
	s.Helper()
	if r.status != status {
		s.Fatalf("%s: got %d, want %d: %v %s", what, r.status, status, r.header, r.body)
	}
}

// freeAddress returns an address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
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

func runNginx(t *testing.T, config string) {
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

func runCaddy(t *testing.T, config string) {
	t.Helper()
	if strings.HasPrefix(config, "{") {
		config = strings.Replace(config, "{", "{\n\tadmin off", 1)
	} else {
		config = "{\n\tadmin off\n}\n" + config
	}
	execute(t, "caddy", "run", "--adapter", "caddyfile", "--config", write(t, "Caddyfile", config))
}

func runHAProxy(t *testing.T, config string) {
	t.Helper()
	execute(t, "haproxy", "-db", "-f", write(t, "haproxy.cfg", config))
}
