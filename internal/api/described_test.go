package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/doors/forwardauth"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

// startTrapped starts a node that refuses the path /.env, and returns a function that asks as a gateway.
func startTrapped(t *testing.T) (n *testNode, ask func(query string, headers ...string) answer) {
	t.Helper()
	n = startNode(t, withForward)
	n.must(n.as(identity.Admin, "PUT", wire.PathPolicies+"/trap", `{"match":["ip:*"],"rules":["0/1s"],"when":{"path":["/.env"],"method":["GET"]}}`), http.StatusCreated)
	return n, func(query string, headers ...string) answer {
		return n.send("GET", n.check+forwardauth.Path+query, "", append(headers, "X-Forwarded-For: 198.51.100.7")...)
	}
}

// TestForwardReadsHowGatewaysDescribeRequests sends the headers of the gateways that describe a request.
func TestForwardReadsHowGatewaysDescribeRequests(t *testing.T) {
	_, ask := startTrapped(t)
	for name, headers := range map[string][]string{
		"Caddy and Traefik":        {"X-Forwarded-Uri: /.env?a", "X-Forwarded-Method: GET", "X-Forwarded-Host: shop.example"},
		"ingress-nginx":            {"X-Original-URL: https://shop.example/.env?a", "X-Original-Method: GET", "X-Auth-Request-Redirect: /.env?a"},
		"nginx of many recipes":    {"X-Original-URI: /.env", "X-Original-Method: GET"},
		"oauth2-proxy":             {"X-Auth-Request-Redirect: /.env"},
		"both, alike":              {"X-Forwarded-Uri: /.env", "X-Original-URL: https://shop.example/%2eenv", "X-Forwarded-Host: SHOP.example:443"},
		"a login page of its own":  {"X-Forwarded-Uri: /.env", "X-Auth-Request-Redirect: https://login.example/"},
		"the target in the prefix": {},
	} {
		query := ""
		if len(headers) == 0 {
			query = "?path=/.env"
		}
		if got := ask(query, headers...); got.status != http.StatusTooManyRequests {
			t.Errorf("%s: got %d, want 429: %s", name, got.status, got.body)
		}
	}
}

// TestForwardRefusesTwoDescriptions: of the two sets of headers the gateway writes one, and hands on what its client
// writes in the other.
func TestForwardRefusesTwoDescriptions(t *testing.T) {
	_, ask := startTrapped(t)
	for name, headers := range map[string][]string{
		"a path":   {"X-Original-URL: https://shop.example/.env", "X-Forwarded-Uri: /"},
		"a method": {"X-Original-URL: https://shop.example/.env", "X-Original-Method: GET", "X-Forwarded-Method: POST"},
		"a host":   {"X-Original-URL: https://shop.example/.env", "X-Forwarded-Host: other.example"},
	} {
		if got := ask("", headers...); got.status != http.StatusBadRequest || !strings.Contains(got.body, "described twice") {
			t.Errorf("%s: got %d, want 400: %s", name, got.status, got.body)
		}
	}
}

// TestForwardWarnsOfAGatewayWithoutPaths: policies with paths never apply to its requests.
func TestForwardWarnsOfAGatewayWithoutPaths(t *testing.T) {
	n, ask := startTrapped(t)
	for range 3 {
		n.must(ask(""), http.StatusOK)
		n.clock.Add(time.Second)
	}
	if logged := n.logged.String(); strings.Count(logged, "without the path of its client's request") != 1 || !strings.Contains(logged, "policy=trap") {
		t.Errorf("the node logs %s", logged)
	}
}

// TestConnectSaysWhenAGatewayAsked by the fast path and by the plain one, and when it last left out the path.
func TestConnectSaysWhenAGatewayAsked(t *testing.T) {
	n, ask := startTrapped(t)
	says := func(text string) {
		t.Helper()
		if got := n.must(n.as(identity.Read, "GET", wire.PathConnect+"/nginx", ""), http.StatusOK); !strings.Contains(got.body, text) {
			t.Errorf("the guide does not say %q: %.400s", text, got.body)
		}
	}
	says("No gateway has asked this node")
	for _, query := range []string{"?by=ip", "?by=ip&by=header:X-Account"} {
		n.clock.Add(time.Minute)
		n.must(ask(query, "X-Account: a"), http.StatusOK)
		says(n.clock.Now().UTC().Format("2006-01-02 15:04:05") + " UTC")
	}
	pathless := n.clock.Now().UTC().Format("2006-01-02 15:04:05")
	n.clock.Add(time.Minute)
	n.must(ask("?by=ip", "X-Forwarded-Uri: /"), http.StatusOK)
	says("without the path of its client's request at `" + pathless)
}

// TestForwardAnswersAnOperatorsQueryOfAClient: a link may have the query that the operator chose. What is sent with
// other requests too is the operator's.
func TestForwardAnswersAnOperatorsQueryOfAClient(t *testing.T) {
	n := startNode(t, withForward)
	ask := func(query, uri string) answer {
		return n.send("GET", n.check+forwardauth.Path+query, "", "X-Forwarded-For: 198.51.100.7", "X-Forwarded-Uri: "+uri)
	}
	n.must(ask("?by=method", "/page?by=method"), http.StatusUnprocessableEntity)
	n.must(ask("?by=ip", "/page"), http.StatusOK)
	n.clock.Add(time.Second)
	n.must(ask("?by=ip", "/page?by=ip"), http.StatusOK)
	n.must(ask("?by=method", "/page?by=method"), http.StatusUnprocessableEntity)
}

// TestForwardCountsAVisitorOnTheGatewaysMachine under its own address.
func TestForwardCountsAVisitorOnTheGatewaysMachine(t *testing.T) {
	fast, plain := startForwardPair(t, func(*nodeParts) {})
	for _, n := range []*recorded{fast, plain} {
		n.talk(t, forwarded("", "X-Forwarded-For: 127.0.0.1"))
		if got := n.as(identity.Read, "GET", wire.PathKeys+"?key=ip:127.0.0.1", ""); !strings.Contains(got.body, `"remaining":0`) {
			t.Errorf("the key of the visitor: got %s", got.body)
		}
	}
}

// TestForwardCountsWhatOnlyFurtherKeysLookAt: a policy without conditions needs the description too, for its further keys.
func TestForwardCountsWhatOnlyFurtherKeysLookAt(t *testing.T) {
	for name, body := range map[string]string{
		"an agent": `{"match":["cookie:*"],"rules":["100/1h"],"also":["agent 2/1h"]}`,
	} {
		n := startNode(t, withForward)
		n.must(n.as(identity.Admin, "PUT", wire.PathPolicies+"/further", body), http.StatusCreated)
		for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
			got := n.send("GET", n.check+forwardauth.Path+"?by=cookie:session", "", "Cookie: session=a", "User-Agent: curl/8", fmt.Sprintf("X-Forwarded-For: 198.51.100.%d", i))
			if got.status != want {
				t.Errorf("%s: request %d got %d, want %d: %s", name, i, got.status, want, got.body)
			}
			n.clock.Add(time.Second)
		}
	}
}
