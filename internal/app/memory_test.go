package app

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/challenge"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/test/servers"
)

// An attacker's keys reach the memory limit. The node continues, keeps the log of a blocked
// key, and reports on /readyz, on the overview and in its metrics that it forgets keys.
func TestNodeReportsThatItForgetsKeys(t *testing.T) {
	a := startApp(t, "--max-memory", "16MiB", "--preset", "api")
	checks, admin := a.CheckAddr(), a.AdminAddr()
	ask := func(to net.Addr, method, path, body string) (int, string) {
		t.Helper()
		answer, text := send(t, to, bearer(edgeToken), method, path, body)
		return answer.StatusCode, text
	}
	check := func(key string) int {
		status, _ := ask(checks, http.MethodPost, "/v1/check", `{"key":"`+key+`"}`)
		return status
	}
	if got := check("token:blocked"); got != http.StatusOK {
		t.Fatalf("the first check: got %d, want 200", got)
	}
	if status, text := ask(admin, http.MethodPost, "/v1/blocks", `{"pattern":"token:blocked","reason":"test"}`); status != http.StatusCreated {
		t.Fatalf("adding the block: got %d %s, want 201", status, text)
	}
	if _, text := ask(checks, http.MethodGet, "/readyz", ""); strings.Contains(text, `"memory"`) {
		t.Errorf("/readyz before the flood: got %s, want no part memory", text)
	}
	policy, _ := a.catalog.Selector().ByName("default")
	requests, results := make([]timestamplog.Request, 1000), make([]timestamplog.Result, 1000)
	for round := range 150 {
		for i := range requests {
			requests[i] = timestamplog.RequestOf(policy, fmt.Sprintf("ip:10.%d.%d.%d", round, i/250, i%250), 1)
		}
		if round == 100 { // the earlier keys are allowed again, and so may be forgotten
			servers.Await(t, "the second of the first rule has passed", func() bool { return check("ip:10.99.3.249") == http.StatusOK })
		}
		a.backends.memory.Decide(t.Context(), requests, results)
	}
	stats := a.backends.memory.Memory()
	if stats.Forgotten == 0 || stats.Used > stats.Max*21/20 || stats.Max != 16<<20 {
		t.Errorf("got the memory stats %+v", stats)
	}
	if times, _, _ := a.backends.memory.Timestamps(t.Context(), timestamplog.LogIDOf(policy, "token:blocked"), 2); len(times) != 1 {
		t.Error("the log of a blocked key was forgotten")
	}
	if got := check("token:newcomer"); got != http.StatusOK {
		t.Errorf("a check of a new key: got %d, want 200", got)
	}
	if status, text := ask(checks, http.MethodGet, "/readyz", ""); status != http.StatusOK || !strings.Contains(text, "idle longest were forgotten") {
		t.Errorf("/readyz: got %d %s, want 200 and a note on forgotten keys", status, text)
	}
	if p := a.status.memoryHealth(); p.Trouble == "" {
		t.Errorf("the overview has %+v, want a trouble", p)
	}
	servers.Await(t, "its heartbeat reports that it forgets keys", func() bool {
		_, text := ask(admin, http.MethodGet, "/v1/nodes", "")
		return strings.Contains(text, `"max_bytes":16777216,"forgetting":true,"forgotten_keys":`)
	})
	if parts := a.status.nodesHealth(t.Context()); len(parts) != 1 || parts[0].Trouble != "forgets keys" || !strings.Contains(parts[0].Text, " calls/s, ") || !strings.Contains(parts[0].Text, " of 16 MiB, ") {
		t.Errorf("the overview has the nodes %+v", parts)
	}
	if _, text := ask(admin, http.MethodGet, "/metrics", ""); !strings.Contains(text, "stint_local_logs_max_bytes 1.6777216e+07") || strings.Contains(text, "stint_local_logs_forgotten_total 0\n") {
		t.Error("the metrics do not have the limit or the number of forgotten logs")
	}
}

// Derived keys and keys with their own limit are not forgotten while they are refused, although
// the rules of the plain policy would allow them.
func TestMemoryKeepsRefusedFurtherKeysAndOwnLimits(t *testing.T) {
	parse := func(texts ...string) rules.Stack {
		stack, err := rules.ParseStack(texts)
		if err != nil {
			t.Fatal(err)
		}
		return stack
	}
	also, err := rules.ParseAlso([]string{"account 1/h"})
	if err != nil {
		t.Fatal(err)
	}
	match, err := keys.Parser{}.Pattern("ip:*")
	if err != nil {
		t.Fatal(err)
	}
	p := &rules.Policy{
		ID: 1, Name: "addresses", Version: 1, Generation: 1, Match: []keys.Pattern{match}, Rules: parse("100/h"), Also: also,
		Mode: rules.Enforce, OnFailure: rules.FailLocal, Algorithm: algorithms.TimestampLog,
	}
	own := func() *profiles.Limit { return &profiles.Limit{Rules: parse("1/h"), Reason: "test"} }
	known := catalog.New(nil, time.Now)
	known.Adopt(&catalog.Saved{
		Policies: []*rules.Policy{p},
		Profiles: []*profiles.Profile{{Key: "ip:192.0.2.1", Limit: own()}, {Key: "token:own", Limit: own()}},
	}, time.Now(), errors.New("no database"))
	log := memlog.New(memlog.Options{MaxBytes: 256 << 10, Describe: describeLogs(func() *catalog.Catalog { return known })})
	part := known.Selector().DerivedOf(p)[0]
	refused := []timestamplog.Request{
		timestamplog.RequestOf(part, "account:alice", 1),
		timestamplog.RequestOf(own().Apply(p), "ip:192.0.2.1", 1),
		timestamplog.RequestOf(own().Apply(nil), "token:own", 1),
	}
	results := make([]timestamplog.Result, len(refused))
	log.Decide(t.Context(), refused, results)
	flood, answers := make([]timestamplog.Request, 1), make([]timestamplog.Result, 1)
	for i := range 10_000 {
		if i == 5000 { // their times are compared in whole milliseconds
			time.Sleep(2 * time.Millisecond)
		}
		flood[0] = timestamplog.RequestOf(p, fmt.Sprintf("ip:10.0.%d.%d", i/250, i%250), 1)
		log.Decide(t.Context(), flood, answers)
	}
	log.Decide(t.Context(), refused, results)
	for i, r := range results {
		if r.Allowed {
			t.Errorf("%s was forgotten while it was refused", refused[i].Key)
		}
	}
	if log.Memory().Forgotten == 0 {
		t.Error("nothing was forgotten")
	}
}

// Who solves challenge after challenge fills no memory beyond its bound, and has nothing forgotten that is refused.
func TestMemoryForgetsSolutionsOfChallenges(t *testing.T) {
	stack, err := rules.ParseStack([]string{"1/h"})
	if err != nil {
		t.Fatal(err)
	}
	match, err := keys.Parser{}.Pattern("ip:*")
	if err != nil {
		t.Fatal(err)
	}
	limited := &rules.Policy{ID: 1, Name: "limited", Version: 1, Generation: 1, Match: []keys.Pattern{match}, Rules: stack, Mode: rules.Enforce, OnFailure: rules.FailLocal, Algorithm: algorithms.TimestampLog}
	solved := *limited
	solved.ID, solved.Name, solved.Outcome = 2, "solved", string(challenge.Solved)
	known := catalog.New(nil, time.Now)
	known.Adopt(&catalog.Saved{Policies: []*rules.Policy{limited, &solved}}, time.Now(), errors.New("no database"))
	log := memlog.New(memlog.Options{MaxBytes: 256 << 10, Describe: describeLogs(func() *catalog.Catalog { return known })})
	g := gate.New(gate.Options{View: known, Log: log})
	address := func(text string) keys.Key { return keys.Parser{}.AddressKey(netip.MustParseAddr(text)) }
	check := func() gate.Outcome {
		d, err := g.Check(t.Context(), gate.Check{Key: address("192.0.2.1"), Cost: 1})
		if err != nil {
			t.Fatal(err)
		}
		return d.Outcome
	}
	if got := check(); got != gate.Allowed {
		t.Fatalf("the first check is %s", got)
	}
	for i := range 10_000 {
		g.Earn(t.Context(), address(fmt.Sprintf("10.0.%d.%d", i/250, i%250)), fmt.Sprint("challenge ", i), 300)
		g.Spend(t.Context(), fmt.Sprint("answer ", i))
	}
	if stats := log.Memory(); stats.Used > stats.Max*21/20 || stats.Forgotten == 0 {
		t.Errorf("got the memory stats %+v", stats)
	}
	if got := check(); got != gate.Limited {
		t.Errorf("after the solutions of others the second check is %s", got)
	}
}
