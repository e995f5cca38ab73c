package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/wire"
)

const (
	get, post, put, patch, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete
)

// client sends requests to all nodes. Its timeout is for a node that hangs.
var client = &http.Client{
	Timeout:   waitTimeout,
	Transport: &http.Transport{MaxIdleConnsPerHost: 64},
}

// answer is the answer to a request.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// try sends one request. headers are "Name: value". An error means that no complete answer
// arrived.
func try(method, url, body string, headers ...string) (answer, error) {
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		request.Header.Set(name, value)
	}
	response, err := client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, text}, err
}

func (n *node) send(method, url, body string, headers ...string) answer {
	n.Helper()
	a, err := try(method, url, body, headers...)
	if err != nil {
		n.Fatal(err)
	}
	return a
}

// as sends an admin request.
func (n *node) as(method, path, body string, headers ...string) answer {
	n.Helper()
	return n.send(method, n.admin+path, body, append([]string{"Authorization: Bearer " + n.token}, headers...)...)
}

// must sends an admin request and fails the test unless it is answered with that status.
func (n *node) must(status int, method, path, body string, headers ...string) answer {
	n.Helper()
	a := n.as(method, path, body, headers...)
	if a.status != status {
		n.Fatalf("%s %s: got %d, want %d: %s", method, path, a.status, status, a.body)
	}
	return a
}

// put creates or replaces a policy.
func (n *node) put(name, policy string) wire.Policy {
	n.Helper()
	a := n.as(put, wire.PathPolicies+"/"+name, policy, "If-Match: *")
	if a.status/100 != 2 {
		n.Fatalf("the policy %s: got %d: %s", name, a.status, a.body)
	}
	return read[wire.Policy](n, a)
}

// ask sends a check and reads the decision, which must fit the status.
func (n *node) ask(body string) wire.Decision {
	n.Helper()
	return decided(n, n.send(post, n.check+wire.PathCheck, body))
}

// about checks a key.
func (n *node) about(key string) wire.Decision {
	n.Helper()
	return n.ask(fmt.Sprintf(`{"key":%q}`, key))
}

var statuses = map[string]int{
	wire.Allowed: http.StatusOK, wire.Limited: http.StatusTooManyRequests,
	wire.Blocked: http.StatusForbidden, wire.Unavailable: http.StatusServiceUnavailable,
}

func decided(t testing.TB, a answer) wire.Decision {
	t.Helper()
	if a.header.Get("Content-Type") != "application/json" {
		t.Fatalf("got %d, want a decision: %s", a.status, a.body)
	}
	d := read[wire.Decision](t, a)
	if statuses[d.Decision] != a.status || d.Allowed != (d.Decision == wire.Allowed) || d.Degraded != (d.DegradedReason != "") {
		t.Fatalf("the status %d does not fit the decision %s", a.status, a.body)
	}
	return d
}

// explain returns what applies to a key.
func (n *node) explain(key string) wire.KeyExplanation {
	n.Helper()
	return read[wire.KeyExplanation](n, n.must(http.StatusOK, get, wire.PathKeys+"?key="+url.QueryEscape(key), ""))
}

// logged returns the times that count for a key, the newest first.
func (n *node) logged(key string) []time.Time {
	n.Helper()
	x := n.explain(key)
	if x.Policy == nil || x.Degraded {
		n.Fatalf("the explanation of %s has no log: %+v", key, x)
	}
	var times []time.Time
	for _, at := range x.Policy.Timestamps {
		times = append(times, at.Time)
	}
	return times
}

// ready returns the answer of /readyz and whether its status is 200.
func (n *node) ready() (wire.Readiness, bool) {
	n.Helper()
	a := n.send(get, n.admin+"/readyz", "")
	r := read[wire.Readiness](n, a)
	if r.Ready != (a.status == http.StatusOK) {
		n.Fatalf("/readyz: the status %d does not fit %s", a.status, a.body)
	}
	return r, r.Ready
}

// part returns one part of the readiness.
func (n *node) part(name string) wire.Part {
	n.Helper()
	r, _ := n.ready()
	for _, p := range r.Parts {
		if p.Name == name {
			return p
		}
	}
	n.Fatalf("/readyz has no part %q", name)
	return wire.Part{}
}

// read decodes an answer strictly.
func read[T any](t testing.TB, a answer) (v T) {
	t.Helper()
	if err := json.UnmarshalRead(bytes.NewReader(a.body), &v, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("%d: %v\n%s", a.status, err, a.body)
	}
	return v
}

// problem reads a problem of that status.
func problem(t testing.TB, a answer, status int) wire.Problem {
	t.Helper()
	if a.status != status || a.header.Get("Content-Type") != wire.ProblemType {
		t.Fatalf("got %d %s, want a problem with %d: %s", a.status, a.header.Get("Content-Type"), status, a.body)
	}
	p := read[wire.Problem](t, a)
	if p.Detail == "" || p.Code == "" || p.Status != status {
		t.Fatalf("the problem is incomplete: %s", a.body)
	}
	return p
}
