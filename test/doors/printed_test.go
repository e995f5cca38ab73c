package doors

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/test/testnode"
)

var failsLine = regexp.MustCompile(`(?i)fails (open|closed)`)

// maxAnswer bounds the answer to a request while Stint is dead. nginx alone would wait for 60 s, and Caddy for ever;
// HAProxy's client makes four attempts.
const maxAnswer = 20 * time.Second

// TestPrintedConfigurationsSurviveADeadStint runs each configuration as it is printed, with Stint stopped and with Stint
// killed: requests are answered, in time, and as its line says.
func TestPrintedConfigurationsSurviveADeadStint(t *testing.T) {
	for _, g := range underTest() {
		for n := range 2 {
			t.Run(fmt.Sprintf("%s-%d", g.name, n), func(t *testing.T) {
				config := configuration(t, g, n)
				line := failsLine.FindStringSubmatch(config)
				if line == nil {
					t.Fatalf("the configuration does not say whether it fails open or closed:\n%s", config)
				}
				s := &site{T: t, node: testnode.Start(t, "--trusted-proxies", "127.0.0.1"), app: new(application), asPrinted: true}
				s.put("site", `{"match":["ip:*"],"rules":["100000/1s"]}`)
				s.program(g.run, config)
				s.until("Stint is asked and answers", func() bool { return s.get("/").status == http.StatusOK })
				s.node.Freeze(t)
				s.expectAsPrinted("while Stint is stopped", line[1])
				s.node.Crash()
				s.expectAsPrinted("after Stint was killed", line[1])
			})
		}
	}
}

// expectAsPrinted fails unless requests pass where a configuration fails open, and are refused where it fails closed.
func (s *site) expectAsPrinted(when, fails string) {
	s.Helper()
	for range 4 {
		bounded := &http.Client{Timeout: maxAnswer}
		response, err := bounded.Get(s.url + "/")
		if err != nil {
			s.Fatalf("%s: a request is not answered: %v", when, err)
		}
		response.Body.Close()
		if isOpen := response.StatusCode == http.StatusOK; isOpen != strings.EqualFold(fails, "open") || !isOpen && response.StatusCode < 500 {
			s.Fatalf("%s, in a configuration that fails %s: got %d", when, fails, response.StatusCode)
		}
	}
}

// TestPageWithAssetsLoadsThroughNginx on a new server, before and after a preset is chosen.
func TestPageWithAssetsLoadsThroughNginx(t *testing.T) {
	for _, preset := range []string{"", "website"} {
		t.Run("preset "+preset, func(t *testing.T) {
			s := &site{T: t, node: testnode.Start(t, "--trusted-proxies", "127.0.0.1", "--preset", preset), app: new(application)}
			s.program(gateways[0].run, configuration(t, gateways[0], 0))
			s.expect("the page", s.get("/"), http.StatusOK)
			for n := range 8 {
				s.expect("an asset", s.get(fmt.Sprintf("/asset-%d.css", n)), http.StatusOK)
			}
			if preset == "" {
				s.node.AwaitOutput(t, "No limits are enforced")
			} else if strings.Contains(s.node.Output(), "No limits are enforced") {
				t.Errorf("the node says that no limits are enforced:\n%s", s.node.Output())
			}
		})
	}
}

// TestRefusalsThroughMinimalConfigurationsSayWhenToRetry: 429 for a limit, 403 for a block.
func TestRefusalsThroughMinimalConfigurationsSayWhenToRetry(t *testing.T) {
	for _, g := range underTest() {
		t.Run(g.name, func(t *testing.T) {
			s := &site{T: t, node: testnode.Start(t, "--trusted-proxies", "127.0.0.1"), app: new(application)}
			s.put("strict", `{"match":["ip:*"],"rules":["1/1d"]}`)
			s.program(g.run, configuration(t, g, 0))
			s.until("the limit is reached", func() bool { return s.get("/").status == http.StatusTooManyRequests })
			if r := s.get("/"); r.header.Get("Retry-After") == "" {
				t.Errorf("limited: no Retry-After in %v", r.header)
			}
			s.node.AddEntry(t, "blocks", `{"pattern":"ip:127.0.0.1","reason":"a test","expires_in":"1h"}`)
			s.until("the block is known", func() bool { return s.get("/").status == http.StatusForbidden })
			if r := s.get("/"); r.header.Get("Retry-After") == "" {
				t.Errorf("blocked: no Retry-After in %v", r.header)
			}
		})
	}
}
