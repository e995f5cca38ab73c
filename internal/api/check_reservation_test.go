package api

import (
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
)

func TestReservationIsCreatedShownAndCancelled(t *testing.T) {
	n := startNode(t)
	putPolicy(n, "default", `{"match":["*"],"rules":["1/10s"]}`, "If-Match: *")
	const ask = `{"key":"host:a","detail":"none","max_wait":"1m"%s}`
	first := n.must(n.ask(fmt.Sprintf(ask, "")), http.StatusOK)
	if !strings.Contains(first.body, `"shadow":null,"delay_ms":0,"reservation":null}`) {
		t.Errorf("the first check: got %s, want no delay", first.body)
	}
	a := n.must(n.ask(fmt.Sprintf(ask, `,"idempotency_key":"k"`)), http.StatusOK)
	d := read[wire.Decision](t, a)
	if d.DelayMS != 10_000 || d.Reservation == nil || d.Reservation.At.String() != "2026-01-01T12:34:41.000Z" || d.Reservation.Handle == "" || *d.RetryAfterMS != 0 || a.header.Get("Retry-After") != "" {
		t.Fatalf("the second check: got %s, want a reservation in 10 s", a.body)
	}
	again := read[wire.Decision](t, n.must(n.ask(fmt.Sprintf(ask, `,"idempotency_key":"k"`)), http.StatusOK))
	if !again.Replayed || *again.Reservation != *d.Reservation {
		t.Errorf("the second check repeated: got %+v, want the same reservation", again)
	}
	peek := n.must(n.ask(fmt.Sprintf(ask, `,"peek":true`)), http.StatusOK)
	if !strings.Contains(peek.body, `"delay_ms":20000,"reservation":null`) {
		t.Errorf("a peek: got %s, want a delay of 20 s and no reservation", peek.body)
	}
	late := n.must(n.ask(`{"key":"host:a","max_wait":"15s"}`), http.StatusTooManyRequests)
	if l := read[wire.Decision](t, late); *l.RetryAfterMS != 5000 || late.header.Get("Retry-After") != "5" || l.Reservation != nil {
		t.Errorf("a reservation too far ahead: got %s", late.body)
	}
	plain := n.must(n.ask(`{"key":"host:a"}`), http.StatusTooManyRequests)
	if strings.Contains(plain.body, "delay_ms") || strings.Contains(plain.body, "reservation") {
		t.Errorf("a check without max_wait: got %s, want no fields of reservations", plain.body)
	}
	for _, want := range []string{`{"freed":true}`, `{"freed":false}`} {
		if a := n.must(n.send(del, n.check+wire.PathReservations+"/"+d.Reservation.Handle, ""), http.StatusOK); a.body != want {
			t.Errorf("cancelling: got %s, want %s", a.body, want)
		}
	}
	n.clock.Add(9 * time.Second)
	n.must(n.ask(`{"key":"host:a"}`), http.StatusTooManyRequests)
	n.clock.Add(time.Second)
	n.must(n.ask(`{"key":"host:a"}`), http.StatusOK)
}

func TestAChargeIsShownAsAReservationAndCancelled(t *testing.T) {
	n := startNode(t)
	putPolicy(n, "default", `{"match":["*"],"rules":["1/1h"]}`, "If-Match: *")
	const ask = `{"key":"host:a","detail":"none","cancellable":true}`
	d := read[wire.Decision](t, n.must(n.ask(ask), http.StatusOK))
	if d.DelayMS != 0 || d.Reservation == nil || d.Reservation.At.String() != "2026-01-01T12:34:31.000Z" {
		t.Fatalf("a cancellable check: %+v", d.Waiting)
	}
	refused := n.must(n.ask(ask), http.StatusTooManyRequests)
	if !strings.Contains(refused.body, `"delay_ms":0,"reservation":null`) {
		t.Errorf("a refused check: %s", refused.body)
	}
	n.clock.Add(time.Minute)
	for _, want := range []string{`{"freed":true}`, `{"freed":false}`} {
		if a := n.must(n.send(del, n.check+wire.PathReservations+"/"+d.Reservation.Handle, ""), http.StatusOK); a.body != want {
			t.Errorf("cancelling: got %s, want %s", a.body, want)
		}
	}
	all := read[wire.KeysDecision](t, n.must(n.ask(`{"keys":["host:a","host:b"],"cancellable":true}`), http.StatusOK))
	if all.Reservation == nil || all.Decisions[0].Waiting != nil {
		t.Fatalf("several keys: %+v, the first key: %+v", all.Waiting, all.Decisions[0].Waiting)
	}
	n.must(n.send(del, n.check+wire.PathReservations+"/"+all.Reservation.Handle, ""), http.StatusOK)
	n.must(n.ask(`{"key":"host:b"}`), http.StatusOK)
	n.wantProblem(n.ask(`{"key":"host:c","cancellable":true,"charge":"always"}`), http.StatusUnprocessableEntity, "cancellable")
}

func TestForeignReservationHandleIsNotFound(t *testing.T) {
	n := startNode(t)
	putPolicy(n, "default", `{"match":["*"],"rules":["1/10s"]}`, "If-Match: *")
	n.ask(`{"key":"a"}`)
	handle := read[wire.Decision](t, n.must(n.ask(`{"key":"a","max_wait":"1m"}`), http.StatusOK)).Reservation.Handle
	for _, bad := range []string{"x", handle[1:], handle + "A", strings.Repeat("A", 12_000), "%00", "%ff", "..%2fcheck"} {
		n.wantProblem(n.send(del, n.check+wire.PathReservations+"/"+bad, ""), http.StatusNotFound, "")
	}
	other := startNode(t) // with its own secret
	n.wantProblem(other.send(del, other.check+wire.PathReservations+"/"+handle, ""), http.StatusNotFound, "")
	n.must(n.send(del, n.check+wire.PathReservations+"/"+handle, ""), http.StatusOK)
}

func TestReservationHandleIsNotLogged(t *testing.T) {
	var logged servers.Output
	n := startNode(t, func(d *nodeParts) {
		d.Server.Logger = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
		d.Gate = gate.New(gate.Options{View: catalog.New(nil, d.Now), Log: d.Keys.Logs[0], Now: d.Now}) // with a catalog that has loaded nothing yet
	})
	n.wantProblem(n.send(del, n.check+wire.PathReservations+"/a-handle", ""), http.StatusServiceUnavailable, "")
	for _, want := range []string{`msg="request failed"`, `msg=request `, "path=" + wire.PathReservations + "/... "} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("the log does not contain %s: %s", want, logged.String())
		}
	}
	if strings.Contains(logged.String(), "a-handle") {
		t.Errorf("the log contains the handle: %s", logged.String())
	}
}

func TestLongestReservationHandleIsAccepted(t *testing.T) {
	n := startNode(t)
	putPolicy(n, "default", `{"match":["*"],"rules":["1/10s"]}`, "If-Match: *")
	putPolicy(n, "trial", `{"match":["*"],"rules":["1/10s"],"mode":"shadow"}`)
	var all []string
	for i := range wire.MaxKeys {
		all = append(all, fmt.Sprintf(`"%0512d"`, i))
	}
	body := `{"keys":[` + strings.Join(all, ",") + `],"max_wait":"1m","idempotency_key":"` + strings.Repeat("i", wire.MaxID) + `"}`
	n.must(n.ask(strings.Replace(body, "iii", "", 1)), http.StatusOK)
	j := read[wire.KeysDecision](t, n.must(n.ask(body), http.StatusOK))
	if j.Reservation == nil || len(j.Reservation.Handle) < 11_000 {
		t.Fatalf("got %+v, want a handle of at least 11,000 bytes", j.Waiting)
	}
	if a := n.must(n.send(del, n.check+wire.PathReservations+"/"+j.Reservation.Handle, ""), http.StatusOK); a.body != `{"freed":true}` {
		t.Errorf("got %s", a.body)
	}
}

func TestCheckOfSeveralKeysReturnsCombinedDecision(t *testing.T) {
	n := startNode(t)
	putPolicy(n, "default", `{"match":["*"],"rules":["1/s"]}`, "If-Match: *")
	putPolicy(n, "tokens", `{"match":["token:*"],"rules":["4/m"]}`)
	const ask = `{"keys":["ip:203.0.113.7",{"key":"token:a","cost":2}]}`
	first := read[wire.KeysDecision](t, n.must(n.ask(ask), http.StatusOK))
	if !first.Allowed || first.ID != "" || first.Waiting != nil || len(first.Decisions) != 2 || first.Decisions[1].Policy != "tokens" || first.Decisions[1].Rules[0].Remaining != 2 {
		t.Fatalf("got %+v", first)
	}
	a := n.must(n.ask(ask), http.StatusTooManyRequests)
	d := read[wire.KeysDecision](t, a)
	if d.Decision != wire.Limited || d.ID == "" || d.ID != d.Decisions[0].ID || *d.RetryAfterMS != 1000 || !d.Decisions[1].Allowed || d.Decisions[1].Rules[0].Remaining != 2 {
		t.Errorf("got %s", a.body)
	}
	if got := a.header.Get("RateLimit"); a.header.Get("Retry-After") != "1" || got != `"1/1s";r=0;t=1` {
		t.Errorf("got the headers %v", a.header)
	}
	n.must(n.as(identity.Operate, post, wire.PathBlocks, `{"pattern":"token:a"}`), http.StatusCreated)
	a = n.must(n.ask(ask), http.StatusForbidden)
	if d := read[wire.KeysDecision](t, a); d.Decision != wire.Blocked || d.RetryAfterMS != nil || d.ID != d.Decisions[1].ID || a.header.Get("Retry-After") != "" {
		t.Errorf("got %s with %v", a.body, a.header)
	}
	n.clock.Add(time.Second)
	n.must(n.ask(ask), http.StatusForbidden)
	n.must(n.ask(`{"key":"ip:203.0.113.7"}`), http.StatusOK) // the blocked checks charged nothing
}

func TestBatchItemsMayWaitButNotHaveSeveralKeys(t *testing.T) {
	n := startNode(t)
	putPolicy(n, "default", `{"match":["*"],"rules":["1/10s"]}`, "If-Match: *")
	a := n.must(n.send(post, n.check+wire.PathBatch, `{"checks":[{"key":"a"},{"key":"a","max_wait":"1m"},{"keys":["b"]},{"key":"a","idempotency_key":"ä"},{"key":"a","max_wait":"2h"}]}`), http.StatusOK)
	all := read[wire.BatchAnswer](t, a).Decisions
	if d := all[1].Decision; d == nil || d.DelayMS != 10_000 || d.Reservation == nil {
		t.Errorf("got %s", a.body)
	}
	for i, field := range map[int]string{2: "keys", 3: "idempotency_key", 4: "max_wait"} {
		if p := all[i].Problem; p == nil || p.Field != field || p.Status != http.StatusUnprocessableEntity {
			t.Errorf("item %d: %+v, want a problem about %s", i, all[i], field)
		}
	}
}

// A list that is shown can be part of a condition of its attribute, with what it excludes, and the
// policy is answered as it was sent.
func TestConditionListsAreShownAndTaken(t *testing.T) {
	n := startNode(t)
	page := read[wire.Page[wire.ConditionList]](t, n.must(n.as(identity.Read, get, wire.PathLists, ""), http.StatusOK))
	if len(page.Items) < 12 {
		t.Fatalf("got %d lists", len(page.Items))
	}
	for _, l := range page.Items {
		one := read[wire.ConditionList](t, n.must(n.as(identity.Read, get, wire.PathLists+"/"+l.Name, ""), http.StatusOK))
		if one.Name != l.Name || one.Title == "" || one.Description == "" || one.Source == "" || len(one.Patterns) == 0 || len(one.Patterns) != len(l.Patterns) {
			t.Errorf("got the list %+v", one)
		}
		when := `{"` + l.Attribute + `":["@` + l.Name + `","not /own/*"]}`
		putPolicy(n, "p", `{"match":["p:*"],"rules":["1/d"],"when":`+when+`}`, "If-Match: *")
		if stored := n.must(n.as(identity.Read, get, wire.PathPolicies+"/p", ""), http.StatusOK); !strings.Contains(stored.body, `"when":`+when) {
			t.Errorf("stored %s, want the conditions %s", stored.body, when)
		}
	}
	putPolicy(n, "p", `{"match":["p:*"],"rules":["0/s"],"when":{"path":["@secrets","not /.env.example"]}}`, "If-Match: *")
	for path, want := range map[string]int{"/.ENV": 429, "/.env.example": 200, "/": 200} {
		n.must(n.ask(`{"key":"p:`+strconv.Itoa(len(path))+`","request":{"path":"`+path+`"}}`), want)
	}
	a := n.as(identity.Admin, put, wire.PathPolicies+"/p", `{"match":["p:*"],"rules":["0/s"],"when":{"path":["/a","@secert"]}}`, "If-Match: *")
	if p := read[wire.Problem](t, n.must(a, http.StatusUnprocessableEntity)); p.Field != "when.path[1]" || !strings.Contains(p.Detail, "did you mean @secrets?") {
		t.Errorf("got the problem %+v", p)
	}
}

func TestAlgorithmsAreListed(t *testing.T) {
	n := startNode(t)
	page := read[wire.Page[wire.Algorithm]](t, n.must(n.as(identity.Read, get, wire.PathAlgorithms, ""), http.StatusOK))
	first := page.Items[0]
	if first.Name != "timestamp_log" || !first.Exact || first.Title == "" || first.Summary == "" || first.Options == nil {
		t.Errorf("got the first algorithm %+v", first)
	}
	for _, a := range page.Items {
		putPolicy(n, "p", `{"match":["p:*"],"rules":["5/m"],"algorithm":"`+a.Name+`"}`, "If-Match: *")
	}
}
