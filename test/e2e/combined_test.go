package e2e_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
)

func TestSeveralKeysAreAllChargedOrNoneUnderConcurrency(t *testing.T) {
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
				t.Errorf("%s has used %d of %d, and its allowed requests cost %d", key, rule.Used, rule.Limit, want)
			}
		}
	})
}

func TestSeveralKeysWaitForOneReservationThatIsGivenBackWhole(t *testing.T) {
	onBothBackends(t, func(t *testing.T, nodes [2]*node) {
		policy(t, nodes, "slow", `{"match":["slow:*"],"rules":["1/20m"]}`)
		policy(t, nodes, "fast", `{"match":["fast:*"],"rules":["1/5m"]}`)
		const both = `{"keys":["slow:a","fast:a"],"max_wait":"1h"}`
		ask := func(n *node) wire.KeysDecision {
			return read[wire.KeysDecision](t, n.send(post, n.check+wire.PathCheck, both))
		}
		if d := ask(nodes[0]); !d.Allowed || d.Reservation != nil {
			t.Fatalf("the first: %+v", d)
		}
		d := ask(nodes[1])
		if !d.Allowed || d.Reservation == nil {
			t.Fatalf("the second: %+v", d)
		}
		for _, key := range []string{"slow:a", "fast:a"} {
			if newest := nodes[0].logged(key)[0]; !newest.Equal(d.Reservation.At.Time) {
				t.Errorf("%s has its newest entry at %s and not at the reservation %s", key, newest, d.Reservation.At)
			}
		}
		if a := nodes[0].send(del, nodes[0].check+wire.PathReservations+"/"+d.Reservation.Handle, ""); !strings.Contains(string(a.body), `"freed":true`) {
			t.Errorf("got %s", a.body)
		}
		for _, key := range []string{"slow:a", "fast:a"} {
			if logged := nodes[1].logged(key); len(logged) != 1 {
				t.Errorf("%s still has %d entries", key, len(logged))
			}
		}
	})
}

func TestOfSeveralKeysOnlyWhoRefusesOffends(t *testing.T) {
	n := startNode(t)
	n.put("default", `{"match":["*"],"rules":["1/h"]}`)
	n.about("token:bad")
	a := n.send(post, n.check+wire.PathCheck, `{"keys":["token:good","token:bad"]}`)
	d := read[wire.KeysDecision](t, a)
	if a.status != http.StatusTooManyRequests || d.ID == "" || d.ID != d.Decisions[1].ID || d.Decisions[0].ID != "" {
		t.Fatalf("got %s", a.body)
	}
	text := ""
	await(t, "the refusal is in the report", func() bool {
		text = string(n.must(http.StatusOK, get, wire.PathOffenders+"?last=24h", "").body)
		return strings.Contains(text, "token:bad")
	})
	if strings.Contains(text, "token:good") {
		t.Errorf("the offenders are %s", text)
	}
}

func TestWithRedisGoneSeveralKeysAreDecidedAsTheirPoliciesChose(t *testing.T) {
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
		t.Fatalf("before the outage: %+v", d)
	}
	n.ask(`{"key":"local:w","cost":2}`)
	reserved := n.ask(`{"key":"local:w","max_wait":"1h"}`)
	if reserved.Reservation == nil {
		t.Fatalf("no reservation is reserved: %+v", reserved)
	}
	s.redis.Kill()
	await(t, "the outage is noticed", func() bool { return n.about("allow:b").Degraded })
	if d := ask(deny, ""); d.Decision != wire.Unavailable || !d.Degraded || !d.Decisions[0].Allowed {
		t.Errorf("where one denies: %+v", d)
	}
	for i, want := range []string{wire.Allowed, wire.Allowed, wire.Limited} { // what was denied charged nothing
		if d := ask(open, `,"max_wait":"1s"`); d.Decision != want || !d.Degraded || d.Reservation != nil {
			t.Errorf("request %d on this node alone: %+v, want %s", i, d, want)
		}
	}
	problem(t, n.send(del, n.check+wire.PathReservations+"/"+reserved.Reservation.Handle, ""), http.StatusServiceUnavailable)
	s.redis.Restart(true)
	await(t, "the outage is over", func() bool { return !n.about("allow:b").Degraded })
	if d := ask(deny, ""); !d.Allowed || d.Degraded {
		t.Errorf("after the outage: %+v", d)
	}
}

func TestOnAClusterKeysOfDifferentSlotsAreRefusedWithTheReason(t *testing.T) {
	s := backends{servers.DedicatedRedis(t, "--cluster-enabled", "yes"), servers.Postgres(t)}
	redis := s.commands(t)
	if err := redis.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	await(t, "the cluster is whole", func() bool { return strings.Contains(redis.ClusterInfo(t.Context()).Val(), "cluster_state:ok") })
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
		t.Error("what was not decided is charged")
	}
}
