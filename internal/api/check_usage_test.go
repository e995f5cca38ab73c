package api

import (
	"net/http"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

func TestChargeAlwaysChargesUpToTheLimit(t *testing.T) {
	n := startNode(t)
	putPolicy(n, "default", `{"match":["*"],"rules":["10/m"]}`, "If-Match: *")
	const report = `{"key":"user:a","cost":5000,"charge":"always"}`
	peek := read[wire.Decision](t, n.must(n.ask(`{"key":"user:a","cost":5000,"charge":"always","peek":true}`), http.StatusTooManyRequests))
	if peek.Rules[0].Remaining != 10 {
		t.Errorf("%d remain after a peek, want 10", peek.Rules[0].Remaining)
	}
	d := read[wire.Decision](t, n.must(n.ask(report), http.StatusTooManyRequests))
	if d.Decision != wire.Limited || d.Rules[0].Remaining != 0 || d.RetryAfterMS != nil {
		t.Errorf("the check with charge: got %+v", d)
	}
	n.must(n.ask(`{"key":"user:a"}`), http.StatusTooManyRequests)
	n.clock.Add(time.Minute)
	n.must(n.ask(`{"key":"user:a","cost":7,"charge":"always","idempotency_key":"r-1"}`), http.StatusOK)
	n.must(n.ask(`{"key":"user:a","cost":7,"charge":"always","idempotency_key":"r-1"}`), http.StatusOK)
	n.must(n.ask(`{"key":"user:a","cost":3}`), http.StatusOK)
}

func TestChargeAlwaysChargesAllKeysIfOneIsBlocked(t *testing.T) {
	n := startNode(t)
	putPolicy(n, "default", `{"match":["*"],"rules":["10/m"]}`, "If-Match: *")
	n.must(n.as(identity.Admin, post, "/v1/blocks", `{"pattern":"user:bad","reason":"test"}`), http.StatusCreated)
	n.must(n.ask(`{"keys":["user:bad",{"key":"org:a","cost":4}],"charge":"always"}`), http.StatusForbidden)
	n.must(n.ask(`{"keys":[{"key":"user:b","cost":100000},{"key":"org:a","cost":5}],"charge":"always"}`), http.StatusTooManyRequests)
	for key, left := range map[string]int{"org:a": 1, "user:b": 0} {
		status := http.StatusOK
		if left == 0 {
			status = http.StatusTooManyRequests
		}
		if d := read[wire.Decision](t, n.must(n.ask(`{"key":"`+key+`","peek":true}`), status)); d.Rules[0].Remaining != left {
			t.Errorf("%s has %d remaining, want %d", key, d.Rules[0].Remaining, left)
		}
	}
}

func TestInvalidChargeIsRejected(t *testing.T) {
	n := startNode(t)
	for body, field := range map[string]string{
		`{"key":"a","charge":"allowed"}`:                         "charge",
		`{"key":"a","charge":true}`:                              "charge",
		`{"key":"a","charge":"always","max_wait":"1s"}`:          "charge",
		`{"keys":["a"],"charge":"always","max_wait":"1s"}`:       "charge",
		`{"key":"a","charge":"always","cost":100001}`:            "cost",
		`{"key":"a","cost":1001}`:                                "cost",
		`{"keys":["b",{"key":"a","cost":1001}]}`:                 "keys[1].cost",
		`{"keys":[{"key":"a","cost":100001}],"charge":"always"}`: "keys[0].cost",
	} {
		n.wantProblem(n.ask(body), http.StatusUnprocessableEntity, field)
	}
}
