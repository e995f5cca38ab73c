package doors

import (
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
)

// used returns how much of the only rule a key has used under the policy site.
func (s *site) used(key string) int {
	s.Helper()
	var shown struct {
		Policy struct {
			Rules []struct {
				Used int `json:"used"`
			} `json:"rules"`
		} `json:"policy"`
	}
	body := s.node.Do(s.T, http.MethodGet, "/v1/keys?policy=site&key="+key, "", http.StatusOK)
	if err := json.Unmarshal(body, &shown); err != nil || len(shown.Policy.Rules) != 1 {
		s.Fatalf("%v: %s", err, body)
	}
	return shown.Policy.Rules[0].Used
}

func TestTheReadmeShowsTheMinimalConfigurationOfNginx(t *testing.T) {
	text, err := os.ReadFile(repository(t, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), configuration(t, gateways[0], 0)) {
		t.Error("README.md has another configuration than docs/doors/nginx.md")
	}
}

func TestTheMinimalConfigurationLimits(t *testing.T) {
	for _, g := range gateways {
		t.Run(g.name, func(t *testing.T) {
			s := start(t, g, 0)
			for i := range 3 {
				r := s.get("/page")
				s.expect("allowed", r, http.StatusOK)
				if r.body != "the application" {
					t.Errorf("request %d: got %q", i, r.body)
				}
			}
			s.expect("limited", s.get("/page"), http.StatusTooManyRequests)
			if n := len(s.app.requests); n != 3 {
				t.Errorf("the application received %d requests", n)
			}
		})
	}
}

func TestTheCompleteConfigurationDoesAllThatIsPromised(t *testing.T) {
	for _, g := range gateways {
		t.Run(g.name, func(t *testing.T) {
			s := start(t, g, 1)
			first := s.get("/page?policy=other&cost=1000&by=host", "X-Stint-Policy: other", "Authorization: Bearer stolen")
			s.expect("the client's query and headers choose nothing", first, http.StatusOK)
			if got := first.header.Get("RateLimit"); !strings.Contains(got, "r=2") {
				t.Errorf("RateLimit of an allowed answer: %q, want r=2", got)
			}
			if used := s.used("ip:" + client); used != 1 {
				t.Fatalf("%s has used %d, want 1", client, used)
			}
			s.expect("a forged address", s.get("/", "Forwarded: for=203.0.113.9", "X-Client-IP: 203.0.113.9"), http.StatusOK)
			if used := s.used("ip:" + client); used != 2 {
				t.Errorf("with a forged Forwarded %s has used %d, want 2", client, used)
			}
			large := s.send(http.MethodPost, "/upload", strings.Repeat("x", 100<<10))
			s.expect("a body that Stint does not read", large, http.StatusOK)
			if last := s.app.requests[len(s.app.requests)-1]; !strings.HasSuffix(last, " 102400") {
				t.Errorf("the application received %s", last)
			}
			limited := s.get("/")
			s.expect("limited", limited, http.StatusTooManyRequests)
			if limited.header.Get("Retry-After") == "" {
				t.Errorf("a limited answer has no Retry-After: %v", limited.header)
			}

			other := []string{"X-Real-IP: 198.51.100.8", "X-Forwarded-For: 198.51.100.8"}
			s.expect("another address", s.get("/", other...), http.StatusOK)
			s.node.Do(t, http.MethodPost, "/v1/blocks", `{"pattern":"ip:198.51.100.8","reason":"test","expires_in":"1h"}`, http.StatusCreated)
			s.expect("blocked", s.get("/", other...), http.StatusForbidden)
			s.node.Do(t, http.MethodPost, "/v1/exemptions", `{"pattern":"ip:198.51.100.8","reason":"test","expires_in":"1h"}`, http.StatusCreated)
			for range 5 {
				s.expect("exempt", s.get("/", other...), http.StatusOK)
			}

			s.node.Kill()
			s.expect("Stint is stopped", s.get("/", "X-Real-IP: 198.51.100.9", "X-Forwarded-For: 198.51.100.9"), g.down)
		})
	}
}

func TestTwentyThousandRequestsAreChargedOnceEach(t *testing.T) {
	for _, g := range gateways {
		t.Run(g.name, func(t *testing.T) {
			s := start(t, g, 1)
			s.remove("site")
			s.put("site", `{"match":["ip:*"],"rules":["100000/1d"]}`)
			const workers, each = 8, 2500
			var wait sync.WaitGroup
			for range workers {
				wait.Go(func() {
					for range each {
						if r := s.get("/"); r.status != http.StatusOK {
							t.Errorf("got %d: %s", r.status, r.body)
							return
						}
					}
				})
			}
			wait.Wait()
			if used := s.used("ip:" + client); used != workers*each {
				t.Errorf("%d were charged, want %d", used, workers*each)
			}
		})
	}
}

// nginx asks again for each internal redirect of try_files.
func TestNginxRedirectsAreChargedOnce(t *testing.T) {
	s := start(t, gateways[0], 1)
	for i := range 3 {
		s.expect("through try_files", s.get("/missing"), http.StatusOK)
		if used := s.used("ip:" + client); used != i+1 {
			t.Fatalf("after %d requests %d are charged", i+1, used)
		}
	}
}
