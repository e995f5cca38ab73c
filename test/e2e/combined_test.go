package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
)

func TestCombinedChecksChargeAllKeysOrNoneUnderLoad(t *testing.T) {
	onBothBackends(t, func(t *testing.T, nodes [2]*node) {
		policy(t, nodes, "few", `{"match":["few:*"],"rules":["30/h"]}`)
		policy(t, nodes, "many", `{"match":["many:*"],"rules":["50/h"]}`)
		groups := []string{`"few:a","many:a"`, `"few:b","many:a"`, `"few:a","few:b"`, `"few:b",{"key":"many:a","cost":2}`}
		var mu sync.Mutex
		allowed := map[string]int{}
		var clients sync.WaitGroup
		for c := range 8 {
			clients.Go(func() {
				for i := range 30 {
					group := groups[(c+i)%len(groups)]
					a, err := try(post, nodes[i%2].check+wire.PathCheck, `{"keys":[`+group+`],"detail":"none"}`)
					if err != nil {
						t.Error(err)
						return
					}
					d := read[wire.KeysDecision](t, a)
					if d.Degraded || a.status != statuses[d.Decision] || len(d.Decisions) != 2 {
						t.Errorf("got %d: %s", a.status, a.body)
					}
					if d.Allowed {
						mu.Lock()
						allowed[group]++
						mu.Unlock()
					}
				}
			})
		}
		clients.Wait()
		for key, want := range map[string]int{
			"few:a":  allowed[groups[0]] + allowed[groups[2]],
			"few:b":  allowed[groups[1]] + allowed[groups[2]] + allowed[groups[3]],
			"many:a": allowed[groups[0]] + allowed[groups[1]] + 2*allowed[groups[3]],
		} {
			rule := nodes[0].explain(key).Policy.Rules[0]
			if rule.Used != want || rule.Used > rule.Limit || want == 0 {
				t.Errorf("%s has used %d of %d, want the cost %d of its allowed requests", key, rule.Used, rule.Limit, want)
			}
		}
	})
}

func TestCombinedReservationIsCancelledForAllKeys(t *testing.T) {
	onBothBackends(t, func(t *testing.T, nodes [2]*node) {
		policy(t, nodes, "slow", `{"match":["slow:*"],"rules":["1/20m"]}`)
		policy(t, nodes, "fast", `{"match":["fast:*"],"rules":["1/5m"]}`)
		const both = `{"keys":["slow:a","fast:a"],"max_wait":"1h"}`
		ask := func(n *node) wire.KeysDecision {
			return read[wire.KeysDecision](t, n.send(post, n.check+wire.PathCheck, both))
		}
		if d := ask(nodes[0]); !d.Allowed || d.Reservation != nil {
			t.Fatalf("the first combined check: got %+v", d)
		}
		d := ask(nodes[1])
		if !d.Allowed || d.Reservation == nil {
			t.Fatalf("the second combined check: got %+v", d)
		}
		for _, key := range []string{"slow:a", "fast:a"} {
			if newest := nodes[0].logged(key)[0]; !newest.Equal(d.Reservation.At.Time) {
				t.Errorf("%s: the newest entry is at %s, want the reservation at %s", key, newest, d.Reservation.At)
			}
		}
		if a := nodes[0].send(del, nodes[0].check+wire.PathReservations+"/"+d.Reservation.Handle, ""); !strings.Contains(string(a.body), `"freed":true`) {
			t.Errorf("got %s", a.body)
		}
		for _, key := range []string{"slow:a", "fast:a"} {
			if logged := nodes[1].logged(key); len(logged) != 1 {
				t.Errorf("%s has %d entries after the reservation was cancelled, want 1", key, len(logged))
			}
		}
	})
}

func TestCombinedCheckRecordsOnlyTheRefusingKeyAsOffender(t *testing.T) {
	n := startNode(t)
	n.put("default", `{"match":["*"],"rules":["1/h"]}`)
	n.about("token:bad")
	a := n.send(post, n.check+wire.PathCheck, `{"keys":["token:good","token:bad"]}`)
	d := read[wire.KeysDecision](t, a)
	if a.status != http.StatusTooManyRequests || d.ID == "" || d.ID != d.Decisions[1].ID || d.Decisions[0].ID != "" {
		t.Fatalf("got %s", a.body)
	}
	text := ""
	servers.Await(t, "the refusal is in the offender report", func() bool {
		text = string(n.must(http.StatusOK, get, wire.PathOffenders+"?last=24h", "").body)
		return strings.Contains(text, "token:bad")
	})
	if strings.Contains(text, "token:good") {
		t.Errorf("the offender report has the allowed key: %s", text)
	}
}

func TestCombinedCheckFollowsOnFailureWithoutRedis(t *testing.T) {
	s, n := outageNode(t)
	for name := range onFailures {
		n.put(name, `{"match":["`+name+`:*"],"rules":["2/h"],"on_failure":"`+name+`"}`)
	}
	ask := func(keys, more string) wire.KeysDecision {
		a := n.send(post, n.check+wire.PathCheck, `{"keys":[`+keys+`]`+more+`}`)
		d := read[wire.KeysDecision](t, a)
		if a.status != statuses[d.Decision] || d.Degraded != (d.DegradedReason != "") {
			t.Errorf("got %d: %s", a.status, a.body)
		}
		return d
	}
	const deny, open = `"local:a","allow:a","deny:a"`, `"local:a","allow:a"`
	if d := ask(deny, ""); !d.Allowed || d.Degraded {
		t.Fatalf("before the outage: got %+v", d)
	}
	n.ask(`{"key":"local:w","cost":2}`)
	reserved := n.ask(`{"key":"local:w","max_wait":"1h"}`)
	if reserved.Reservation == nil {
		t.Fatalf("a check with max_wait: got %+v, want a reservation", reserved)
	}
	s.redis.Kill()
	servers.Await(t, "the outage is noticed", func() bool { return n.about("allow:b").Degraded })
	if d := ask(deny, ""); d.Decision != wire.Unavailable || !d.Degraded || !d.Decisions[0].Allowed {
		t.Errorf("with a key under on_failure deny: got %+v", d)
	}
	for i, want := range []string{wire.Allowed, wire.Allowed, wire.Limited} { // the denied check charged nothing
		if d := ask(open, `,"max_wait":"1s"`); d.Decision != want || !d.Degraded || d.Reservation != nil {
			t.Errorf("request %d without Redis: got %+v, want %s", i, d, want)
		}
	}
	problem(t, n.send(del, n.check+wire.PathReservations+"/"+reserved.Reservation.Handle, ""), http.StatusServiceUnavailable)
	s.redis.Restart(true)
	servers.Await(t, "the outage is over", func() bool { return !n.about("allow:b").Degraded })
	if d := ask(deny, ""); !d.Allowed || d.Degraded {
		t.Errorf("after the outage: got %+v", d)
	}
}

func TestCombinedCheckAcrossClusterSlotsIsRefused(t *testing.T) {
	s := backends{servers.DedicatedRedis(t, "--cluster-enabled", "yes"), servers.Postgres(t)}
	redis := s.commands(t)
	if err := redis.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	servers.Await(t, "the cluster is whole", func() bool { return strings.Contains(redis.ClusterInfo(t.Context()).Val(), "cluster_state:ok") })
	s.redis.URL = strings.TrimSuffix(strings.Replace(s.redis.URL, "redis://", "redis+cluster://", 1), "/0")
	n := s.start(t, 1)[0]
	n.awaitReady()
	n.put("other", `{"match":["other:*"],"rules":["1/h"]}`)
	p := problem(t, n.send(post, n.check+wire.PathCheck, `{"keys":["token:1","token:2","token:3","token:4"]}`), http.StatusUnprocessableEntity)
	if p.Field != "keys" || !strings.Contains(p.Detail, "slots") || !strings.Contains(p.Detail, "one by one") {
		t.Errorf("got %+v", p)
	}
	const one = `{"keys":["token:1",{"key":"token:1","policy":"other"}]}`
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		if a := n.send(post, n.check+wire.PathCheck, one); a.status != want {
			t.Errorf("one key under two policies: got %d, want %d: %s", a.status, want, a.body)
		}
	}
	if len(n.logged("token:2")) > 0 {
		t.Error("a refused combined check was charged")
	}
	t.Run("further keys are checked first and then charged", func(t *testing.T) { furtherKeysOnACluster(t, n) })
}

// The address, its network and the account are in different slots.
func furtherKeysOnACluster(t *testing.T, n *node) {
	n.put("derived", `{"match":["ip:*"],"rules":["5/h"],"also":["net:/24 3/h","account 2/h"]}`)
	n.put("guessing", `{"match":["ip:*"],"outcome":"login_failed","rules":["9/h"],"also":["account 1/h"]}`)
	check := func(fields string) wire.Decision {
		t.Helper()
		a := n.send(post, n.check+wire.PathCheck, `{`+fields+`}`)
		d := read[wire.Decision](t, a)
		if d.Degraded || a.status != statuses[d.Decision] {
			t.Fatalf("got %d: %s", a.status, a.body)
		}
		return d
	}
	p := problem(t, n.send(post, n.check+wire.PathCheck, `{"key":"ip:203.0.113.200","max_wait":"1s","values":{"account":"zoe"}}`), http.StatusUnprocessableEntity)
	if p.Field != "max_wait" || !strings.Contains(p.Detail, "Cluster") {
		t.Errorf("a check with max_wait: got %+v", p)
	}
	used := func(key string, want ...int) {
		t.Helper()
		var got []int
		x := n.explain(key)
		if x.Policy != nil && x.Policy.Name == "derived" {
			got = append(got, x.Policy.Rules[0].Used)
		}
		for _, p := range x.Conditional {
			got = append(got, p.Rules[0].Used)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has used %d, want %d", key, got, want)
		}
	}

	// The last check within the limit of the network gets the same answer when it is sent again.
	for i, fields := range []string{`"key":"ip:203.0.113.1"`, `"key":"ip:203.0.113.2"`, `"key":"ip:203.0.113.3","idempotency_key":"one"`, `"key":"ip:203.0.113.3","idempotency_key":"one"`} {
		if d := check(fields); !d.Allowed || d.Replayed != (i == 3) {
			t.Errorf("check %d: got %+v", i, d)
		}
	}
	for range 2 {
		if d := check(`"key":"ip:203.0.113.4"`); d.Decision != "limited" || d.DerivedKey != "net:203.0.113.0/24" || d.ID == "" {
			t.Errorf("the fourth check of the network: got %+v", d)
		}
	}
	used("net:203.0.113.0/24", 3)
	if logged := n.logged("ip:203.0.113.4"); len(logged) > 0 {
		t.Errorf("the refused check was charged: %s", logged)
	}

	const alice = `,"values":{"account":"alice"}`
	for _, address := range []string{"198.51.100.1", "192.0.2.1"} {
		if d := check(`"key":"ip:` + address + `","peek":true` + alice); !d.Allowed {
			t.Errorf("a peek: got %+v", d)
		}
		if d := check(`"key":"ip:` + address + `"` + alice); !d.Allowed {
			t.Errorf("a check of %s: got %+v", address, d)
		}
	}
	if d := check(`"key":"ip:192.0.2.2"` + alice); d.Allowed || d.DerivedKey != "account:alice" {
		t.Errorf("the third check of the account: got %+v", d)
	}
	used("net:192.0.2.0/24", 1)
	used("account:alice", 2, 0)

	// A report charges each key that is below its limit.
	for range 2 {
		if a := n.send(post, n.check+wire.PathReport, `{"key":"ip:192.0.2.7","outcome":"login_failed","values":{"account":"bob"}}`); a.status != http.StatusOK {
			t.Errorf("got %d: %s", a.status, a.body)
		}
	}
	used("account:bob", 0, 1)
	if d := check(`"key":"ip:192.0.2.8","values":{"account":"bob"}`); d.Allowed || d.DerivedKey != "account:bob" {
		t.Errorf("a check of the account: got %+v", d)
	}

	// Concurrent checks exceed no limit, and each allowed check is charged to each key.
	var mu sync.Mutex
	var clients sync.WaitGroup
	allowed := 0
	for i := range 8 {
		clients.Go(func() {
			a, err := try(post, n.check+wire.PathCheck, fmt.Sprintf(`{"key":"ip:198.18.0.%d","detail":"none"}`, i))
			if err != nil {
				t.Error(err)
			} else if a.status == http.StatusOK {
				mu.Lock()
				allowed++
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	if allowed != 3 {
		t.Errorf("%d checks of the network were allowed, want 3", allowed)
	}
	used("net:198.18.0.0/24", 3)
}
