package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

func TestHoldIsMadeSettledReleasedAndExtended(t *testing.T) {
	n := startNode(t)
	putPolicy(n, "tokens", `{"match":["team:*"],"unit":"tokens","rules":["1M/1d","2 concurrent"],"cost":2000,"hold":"30s"}`, "If-Match: *")
	a := n.must(n.ask(`{"key":"team:a","cost":700000,"hold":"10m","detail":"none"}`), http.StatusOK)
	d := read[wire.Decision](t, a)
	if d.Hold == nil || d.Hold.ExpiresAt.String() != "2026-01-01T12:44:31.000Z" || !strings.Contains(a.body, `,"hold":{"handle":"`+d.Hold.Handle+`","expires_at":"2026-01-01T12:44:31.000Z","expires_in_ms":600000}`) {
		t.Fatalf("the first check: got %s", a.body)
	}
	path := n.check + wire.PathHolds + "/" + d.Hold.Handle
	if a := n.must(n.send(post, path+"/extend", `{"hold":"20m"}`), http.StatusOK); a.body != `{"state":"held","held":700000,"cost":700000,"over":0,"expires_at":"2026-01-01T12:54:31.000Z"}` {
		t.Errorf("extended: got %s", a.body)
	}
	byDefault := read[wire.Decision](t, n.must(n.ask(`{"key":"team:a"}`), http.StatusOK))
	if byDefault.Hold == nil || byDefault.Hold.ExpiresAt.String() != "2026-01-01T12:35:01.000Z" || (byDefault.Rules)[1].Remaining != 298_000 {
		t.Errorf("a check that says nothing: got %+v", byDefault)
	}
	full := read[wire.Decision](t, n.must(n.ask(`{"key":"team:a"}`), http.StatusTooManyRequests))
	if full.Rule != "2 concurrent" || *full.RetryAfterMS != 30_000 || full.Hold != nil || full.Rules[0].WindowMS != 0 {
		t.Errorf("the third at once: got %+v", full)
	}
	for range 2 {
		if a := n.must(n.send(post, path, `{"cost":3100}`), http.StatusOK); a.body != `{"state":"settled","held":700000,"cost":3100,"over":0,"expires_at":null}` {
			t.Errorf("settled: got %s", a.body)
		}
	}
	if p := n.wantProblem(n.send(post, path, `{"cost":3101}`), http.StatusConflict, ""); p.Code != "settled" {
		t.Errorf("settled with another cost: got %+v", p)
	}
	released := n.check + wire.PathHolds + "/" + byDefault.Hold.Handle
	if a := n.must(n.send(del, released, ""), http.StatusOK); a.body != `{"state":"released","held":2000,"cost":0,"over":0,"expires_at":null}` {
		t.Errorf("released: got %s", a.body)
	}
	more := read[wire.Decision](t, n.must(n.ask(`{"key":"team:a","cost":996900,"hold":"1m"}`), http.StatusOK))
	if a := n.must(n.send(post, n.check+wire.PathHolds+"/"+more.Hold.Handle, `{"cost":1000000}`), http.StatusOK); !strings.Contains(a.body, `"over":3100`) {
		t.Errorf("used more: got %s", a.body)
	}
	later := read[wire.KeysDecision](t, n.must(n.ask(`{"keys":["team:b",{"key":"team:c","cost":5}],"hold":"1m"}`), http.StatusOK))
	n.clock.Add(2 * time.Minute)
	if p := n.wantProblem(n.send(post, n.check+wire.PathHolds+"/"+later.Hold.Handle, ""), http.StatusGone, ""); p.Code != "expired" {
		t.Errorf("after it expired: got %+v", p)
	}
}

// A hold says who asked for it: the token, whatever the check says; without one what the check says.
func TestOpenHoldsSayWhoAskedForThem(t *testing.T) {
	held := func(n *recorded) (sources []string) {
		for _, h := range read[wire.KeyExplanation](t, n.must(n.as(reader, get, wire.PathKeys+"?key=team:a", ""), http.StatusOK)).Policy.Holds {
			sources = append(sources, string(h.Source))
		}
		return sources
	}
	for withTokens, want := range map[bool][]string{true: {"test-check", "test-check", "test-check"}, false: {"worker 7", "", "worker 8"}} {
		fast, plain := startPair(t, func(p *nodeParts) { p.Server.CheckAuth = withTokens })
		for _, n := range []*recorded{fast, plain} {
			putPolicy(n.testNode, "tokens", `{"match":["team:*"],"rules":["1M tokens/1d"],"hold":"1m"}`, "If-Match: *")
			ask := func(path, body string) {
				n.must(n.send(post, n.check+path, body, "Authorization: Bearer "+n.tokens[identity.Check]), http.StatusOK)
			}
			ask(wire.PathCheck, `{"key":"team:a","source":"worker 7"}`)
			ask(wire.PathCheck, `{"keys":["team:a"]}`)
			ask(wire.PathBatch, `{"checks":[{"key":"team:a","source":"worker 8"}]}`)
			if got := held(n); !slices.Equal(got, want) {
				t.Errorf("with tokens: %v, held by %q, want %q", withTokens, got, want)
			}
		}
		if fast.fast.Load() == 0 {
			t.Error("the fast path answered nothing")
		}
	}
}

func TestInvalidHoldsAreRefused(t *testing.T) {
	n := startNode(t)
	putPolicy(n, "tokens", `{"match":["team:*"],"rules":["1M tokens/1d"]}`, "If-Match: *")
	putPolicy(n, "default", `{"match":["*"],"rules":["5/1m"]}`, "If-Match: *")
	for body, field := range map[string]string{
		`{"key":"team:a","hold":"1ms"}`: "hold", `{"key":"team:a","hold":"25h"}`: "hold", `{"key":"team:a","hold":5}`: "hold",
		`{"key":"team:a","hold":"1m","max_wait":"1s"}`: "hold", `{"key":"team:a","hold":"1m","charge":"always"}`: "hold",
		`{"key":"ip:203.0.113.7","hold":"1m"}`: "hold", `{"keys":["ip:203.0.113.7"],"hold":"1m"}`: "hold",
	} {
		n.wantProblem(n.ask(body), http.StatusUnprocessableEntity, field)
	}
	handle := read[wire.Decision](t, n.must(n.ask(`{"key":"team:a","hold":"1m"}`), http.StatusOK)).Hold.Handle
	path := n.check + wire.PathHolds + "/" + handle
	n.wantProblem(n.send(post, path, `{"cost":-1}`), http.StatusUnprocessableEntity, "cost")
	n.wantProblem(n.send(post, path, `{"cost":1000000000000001}`), http.StatusUnprocessableEntity, "cost")
	n.wantProblem(n.send(post, path+"/extend", `{"hold":"25h"}`), http.StatusUnprocessableEntity, "hold")
	for _, bad := range []string{"x", handle[1:], handle + "A", strings.Repeat("A", 12_000)} {
		n.wantProblem(n.send(del, n.check+wire.PathHolds+"/"+bad, ""), http.StatusNotFound, "")
	}
	n.wantProblem(n.send(del, n.check+wire.PathReservations+"/"+handle, ""), http.StatusNotFound, "")
}
