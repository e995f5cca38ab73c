package frameworks

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/limit"
)

// token is the admin token of the node. It protects nothing but test data.
const token = "d41adca9f5c1b7d2830694ef1a5c3d7b"

// output is what a program has written so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

var announced = regexp.MustCompile(`checks +(http://\S+)[^\n]*\n +admin +(http://\S+)`)

// startNode builds the server of this repository, runs it, and returns its two addresses.
func startNode(t *testing.T) (checks, admin string) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "stint-server")
	if text, err := exec.Command("go", "build", "-C", "../..", "-trimpath", "-o", program, "./cmd/server").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	var printed output
	node := exec.Command(program, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", filepath.Join(dir, "data"))
	node.Env = []string{"STINT_ADMIN_TOKEN=" + token, "STINT_PRESET=api"}
	node.Stdout, node.Stderr = &printed, &printed
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- node.Wait() }()
	t.Cleanup(func() {
		_ = node.Process.Signal(syscall.SIGTERM)
		if err := <-ended; err != nil {
			t.Errorf("the node ended with %v: %s", err, printed.String())
		}
	})
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		found := announced.FindStringSubmatch(printed.String())
		if found == nil {
			continue
		}
		if answer, err := http.Get(found[1] + "/readyz"); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return found[1], found[2]
			}
		}
	}
	t.Fatalf("the node is not ready: %s", printed.String())
	return "", ""
}

var frameworks = map[string]func(guard, http.HandlerFunc) http.Handler{
	"nethttp": netHTTP, "chi": chiRouter, "echo": echoServer, "gin": ginEngine,
}

func TestEachFrameworkTakesTheLibrary(t *testing.T) {
	for name, protect := range frameworks {
		t.Run(name, func(t *testing.T) {
			limiter, err := limit.New(limit.Memory(), name, "2/1h")
			if err != nil {
				t.Fatal(err)
			}
			site := httptest.NewServer(protect(&limit.Guard{Limiter: limiter}, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "welcome") }))
			defer site.Close()
			for n, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
				answer, err := http.Get(site.URL + "/welcome")
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(answer.Body)
				answer.Body.Close()
				if err != nil || answer.StatusCode != want || (string(text) == "welcome") != (want == http.StatusOK) {
					t.Errorf("request %d: got %s, %v: %s", n+1, answer.Status, err, text)
				}
			}
		})
	}
}

func TestEachFrameworkIsProtectedAsDocumented(t *testing.T) {
	checks, admin := startNode(t)
	stint, err := client.New(checks)
	if err != nil {
		t.Fatal(err)
	}
	for name, protect := range frameworks {
		t.Run(name, func(t *testing.T) {
			request, err := http.NewRequest(http.MethodPut, admin+"/v1/policies/"+name, strings.NewReader(`{"match":["site:`+name+`"],"rules":["2/1h"]}`))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", "Bearer "+token)
			request.Header.Set("Content-Type", "application/json")
			answer, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if answer.StatusCode != http.StatusCreated {
				t.Fatalf("PUT of the policy: got %s", answer.Status)
			}

			var served atomic.Int64
			guard := &client.Guard{Client: stint, Key: func(*http.Request) string { return "site:" + name }}
			site := httptest.NewServer(protect(guard, func(w http.ResponseWriter, r *http.Request) {
				served.Add(1)
				if d := client.DecisionOf(r.Context()); d == nil || !d.Allowed {
					t.Errorf("DecisionOf in the handler: got %+v", d)
				}
				_, _ = io.WriteString(w, "welcome")
			}))
			defer site.Close()
			for n, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
				answer, err := http.Get(site.URL + "/welcome")
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(answer.Body)
				answer.Body.Close()
				if err != nil || answer.StatusCode != want || answer.Header.Get("RateLimit-Policy") == "" {
					t.Errorf("request %d: got %s, %v, %v: %s", n+1, answer.Status, answer.Header, err, text)
				}
				if welcomed := string(text) == "welcome"; welcomed != (want == http.StatusOK) {
					t.Errorf("request %d: got the body %q", n+1, text)
				}
				if problem := answer.Header.Get("Content-Type") == "application/problem+json"; problem != (want != http.StatusOK) {
					t.Errorf("request %d: got the content type %s", n+1, answer.Header.Get("Content-Type"))
				}
			}
			if served.Load() != 2 {
				t.Errorf("the handler was called %d times, want 2", served.Load())
			}
		})
	}
}

// TestClientDocumentHasTheExamples looks up the code of each framework in docs/CLIENT.md.
func TestClientDocumentHasTheExamples(t *testing.T) {
	document, err := os.ReadFile("../../docs/CLIENT.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("frameworks.go")
	if err != nil {
		t.Fatal(err)
	}
	function := string(source[bytes.Index(source, []byte("func throttle(")):])
	for _, line := range []string{"guard.Handler(mux)", "router.Use(guard.Handler)", "e.Use(echo.WrapMiddleware(guard.Handler))", "engine.Use(throttle(guard.Handler))", function} {
		if !bytes.Contains(document, []byte(line)) || !bytes.Contains(source, []byte(line)) {
			t.Errorf("docs/CLIENT.md and frameworks.go do not both have\n%s", line)
		}
	}
}
