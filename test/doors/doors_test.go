// Package doors tests the doors with the real gateways, under the configurations of
// docs/doors as written there.
package doors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/testnode"
)

func TestMain(m *testing.M) { testnode.Main(m) }

// maxWait bounds every wait for something that must happen.
const maxWait = time.Minute

// client is the address that the test's requests come from, behind a proxy in front
// of the gateway.
const client = "198.51.100.7"

// site is a gateway in front of an application, and Stint beside it.
type site struct {
	*testing.T
	node *testnode.Node
	// other is asked alternately with node, nil for none, and balanced is where that is done; see stint.
	other    *testnode.Node
	balanced string
	url      string
	app      *application
	at       string // the application's URL
	// asPrinted keeps the timeouts of the configuration.
	asPrinted bool
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

// last returns the newest request.
func (a *application) last() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.requests[len(a.requests)-1]
}

// count returns the number of requests.
func (a *application) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.requests)
}

// forget forgets all requests.
func (a *application) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests = nil
}

// start starts an application, Stint and a gateway with the n-th configuration of its
// page.
func start(t *testing.T, g gateway, n int, flags ...string) *site {
	t.Helper()
	s := &site{T: t, node: testnode.Start(t, append([]string{"--trusted-proxies", "127.0.0.1"}, flags...)...), app: new(application)}
	return s.behind(g, n)
}

// behind starts an application and a gateway with the n-th configuration of its page.
func (s *site) behind(g gateway, n int) *site {
	s.Helper()
	s.put("site", `{"match":["ip:*"],"rules":["3/1d"]}`)
	return s.program(g.run, configuration(s.T, g, n))
}

// program starts an application, and a gateway on a configuration.
func (s *site) program(run func(*site, string), config string) *site {
	s.Helper()
	app := httptest.NewServer(s.app)
	s.Cleanup(app.Close)
	s.at = app.URL
	address := servers.FreeAddress(s.T)
	_, port, _ := net.SplitHostPort(address)
	var slower []string
	if !s.asPrinted {
		// A busy machine must not look like an outage of Stint.
		slower = []string{
			"/etc/haproxy/stint.lua", s.slowScript(),
			"proxy_connect_timeout 100ms", "proxy_connect_timeout " + gatewayTimeout,
			"proxy_read_timeout 500ms", "proxy_read_timeout " + gatewayTimeout,
			"dial_timeout 100ms", "dial_timeout " + gatewayTimeout,
			"response_header_timeout 500ms", "response_header_timeout " + gatewayTimeout,
			"timeout connect 100ms", "timeout connect " + gatewayTimeout,
			"500*time.Millisecond", "time.Minute",
		}
	}
	replace := strings.NewReplacer(append(slower,
		"policy=website", "policy=site", // a policy of the test's own
		"policy: 'website'", "policy: 'site'",
		"127.0.0.1:8080", strings.TrimPrefix(s.stint(), "http://"),
		"127.0.0.1:3000", strings.TrimPrefix(app.URL, "http://"),
		"listen 8000", "listen "+address,
		"bind 127.0.0.1:8000", "bind "+address,
		"listen(8000", "listen("+port,
		"port: 8000", "port: "+port,
		":8000 {", "http://:"+port+" {\n\tbind 127.0.0.1",
		"/etc/haproxy/stint.lua", repository(s.T, "deploy/haproxy/stint.lua"),
	)...)
	s.url = "http://" + address
	run(s, replace.Replace(config))
	s.await()
	return s
}

// gatewayTimeout is how long gateways wait for Stint in the tests, in place of the time in
// their configuration.
const gatewayTimeout = "60s"

// slowScript writes deploy/haproxy/stint.lua with gatewayTimeout and returns
// its path.
func (s *site) slowScript() string {
	s.Helper()
	text, err := os.ReadFile(repository(s.T, "deploy/haproxy/stint.lua"))
	if err != nil {
		s.Fatal(err)
	}
	return write(s.T, "stint.lua", strings.Replace(string(text), "timeout = 500 ", "timeout = 60000 ", 1))
}

// token returns the secret of a new token with one scope.
func (s *site) token(scope string) string {
	s.Helper()
	var made struct{ Secret string }
	text := s.node.Do(s.T, http.MethodPost, "/v1/tokens", `{"name":"gateway","scopes":["`+scope+`"]}`, http.StatusCreated)
	if err := json.Unmarshal(text, &made); err != nil || made.Secret == "" {
		s.Fatalf("%v: %s", err, text)
	}
	return made.Secret
}

var fenced = regexp.MustCompile("(?s)```(\\w+)\n(.*?)```")

// configuration returns the n-th configuration of a gateway's page.
func configuration(t *testing.T, g gateway, n int) string {
	t.Helper()
	page, err := os.ReadFile(repository(t, "docs/doors/"+g.page))
	if err != nil {
		t.Fatal(err)
	}
	n += g.first
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
	s.until("the gateway accepts connections", func() bool {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// until waits until something is the case.
func (s *site) until(what string, is func() bool) {
	s.Helper()
	servers.Await(s, what, is)
}

// put makes a policy, in place of one of that name.
func (s *site) put(name, policy string) {
	s.Helper()
	var list struct{ Items []struct{ Name string } }
	if err := json.Unmarshal(s.node.Do(s.T, http.MethodGet, "/v1/policies?limit=1000", "", http.StatusOK), &list); err != nil {
		s.Fatal(err)
	}
	for _, p := range list.Items {
		if p.Name == name {
			s.remove(name)
		}
	}
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
	response, err := keepAlive.Do(request)
	// A gateway that refuses may close the connection before it has read the body; Go's
	// client may then report the write that failed instead of the answer.
	for try := 1; body != "" && try < 20 && (errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)); try++ {
		request.Body = io.NopCloser(strings.NewReader(body))
		response, err = keepAlive.Do(request)
	}
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

// dialed is the number of connections that keepAlive has opened.
var dialed atomic.Int64

// keepAlive sends the requests of the tests over as few connections as it can.
var keepAlive = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Transport: &http.Transport{
	MaxIdleConnsPerHost: 64,
	DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed.Add(1)
		return new(net.Dialer).DialContext(ctx, network, address)
	},
}}

// expect fails unless the reply has the status.
func (s *site) expect(what string, r reply, status int) {
	s.Helper()
	if r.status != status {
		s.Fatalf("%s: got %d, want %d: %v %s", what, r.status, status, r.header, r.body)
	}
}
