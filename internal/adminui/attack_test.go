package adminui_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/rules"
)

// send sends checks as clients do, and returns the decisions.
func (n *node) send(t testing.TB, keys ...string) []string {
	t.Helper()
	type check struct {
		Key    string            `json:"key"`
		Source string            `json:"source"`
		Meta   map[string]string `json:"meta"`
	}
	var all []string
	for len(keys) > 0 {
		some := keys[:min(len(keys), 1000)]
		keys = keys[len(some):]
		var body struct {
			Checks []check `json:"checks"`
		}
		for _, key := range some {
			body.Checks = append(body.Checks, check{key, "edge-1", map[string]string{"path": "/search"}})
		}
		sent, err := json.Marshal(body)
		must(t, err)
		r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, n.checks+"/v1/check/batch", bytes.NewReader(sent))
		must(t, err)
		r.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(r)
		must(t, err)
		var got struct {
			Decisions []struct {
				Decision string `json:"decision"`
			} `json:"decisions"`
		}
		err = json.UnmarshalRead(response.Body, &got)
		response.Body.Close()
		must(t, err)
		for _, d := range got.Decisions {
			all = append(all, d.Decision)
		}
	}
	if len(all) == 0 || strings.Contains(strings.Join(all, " "), "  ") {
		t.Fatalf("a check has no decision: %v", all)
	}
	return all
}

// decisionOn returns the decision on one more check of a key.
func (n *node) decisionOn(t testing.TB, key string) string {
	t.Helper()
	return n.send(t, key)[0]
}

const (
	quietMinutes  = 40
	attackMinutes = 22
	attackers     = 61
)

// attack sends normal traffic and then an attack from one network, by checks that
// clients really send; the escalation of the policy blocks the keys with most offences.
func (n *node) attack(t testing.TB) {
	t.Helper()
	before, err := n.store.Policies.FindPolicyByName(context.Background(), "default")
	must(t, err)
	changed := *before
	changed.Escalation = &rules.Escalation{Threshold: 250, Window: 10 * time.Minute, Duration: time.Hour, Factor: 2, MaxDuration: 32 * time.Hour, DecayAfter: 48 * time.Hour}
	_, err = n.store.Policies.PutPolicy(context.Background(), audit.SystemActor("test"), &changed, etag.Any)
	must(t, err)
	for minute := range quietMinutes + attackMinutes {
		n.clock.advance(time.Minute)
		var keys []string
		for i := range 30 {
			keys = append(keys, fmt.Sprintf("token:client%d", (minute*7+i)%40))
		}
		if minute%5 == 0 {
			keys = append(keys, "host:api.example.com", "host:api.example.com")
		}
		if minute >= quietMinutes {
			for i := range attackers {
				for range 2 + 60/(i+2) {
					keys = append(keys, fmt.Sprintf("ip:203.0.113.%d", i*4+2))
				}
			}
			for range 9 {
				keys = append(keys, "ip:2001:db8:4f:12::7", "token:"+hostile[0], "token:invoice\u202Egpj.exe")
			}
		}
		n.send(t, keys...)
		n.flush(t)
	}
	n.clock.advance(30 * time.Second)
	n.send(t, "ip:203.0.113.2", "ip:203.0.113.6", "ip:203.0.113.6", "ip:203.0.113.6")
	n.flush(t)
	_, err = n.detection.Proposals.Propose(context.Background())
	must(t, err)
}

func TestAttacksAreListedWithTheirSourcesAndLinksToBlockThem(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "olu")
	v.get("/attacks").is(http.StatusOK).holds("No attack was announced yet.")
	n.fillMonitor(t)
	v.get("/").is(http.StatusOK).holds(`href="/attacks`)
	v.get("/attacks").is(http.StatusOK).holds("goes on").holds("203.0.113.0/24").holds("/blocks/new?").holds("of default")
	n.as(t, "vic").get("/attacks").is(http.StatusOK).holds("goes on").lacks("/blocks/new?")
}
