package e2e_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	v1 "github.com/stint-dev/stint/internal/api/v1"
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
					a, err := try(post, nodes[i%2].check+v1.PathCheck, `{"keys":[`+group+`],"detail":"none"}`)
					if err != nil {
						t.Error(err)
						return
					}
					d := read[v1.KeysDecision](t, a)
					if d.Degraded || a.status != statuses[d.Decision] || len(d.Parts) != 2 {
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

func TestSeveralKeysWaitForOneTurnThatIsGivenBackWhole(t *testing.T) {
	onBothBackends(t, func(t *testing.T, nodes [2]*node) {
		policy(t, nodes, "slow", `{"match":["slow:*"],"rules":["1/20m"]}`)
		policy(t, nodes, "fast", `{"match":["fast:*"],"rules":["1/5m"]}`)
		const both = `{"keys":["slow:a","fast:a"],"max_wait":"1h"}`
		ask := func(n *node) v1.KeysDecision {
			return read[v1.KeysDecision](t, n.send(post, n.check+v1.PathCheck, both))
		}
		if d := ask(nodes[0]); !d.Allowed || d.Turn != nil {
			t.Fatalf("the first: %+v", d)
		}
		d := ask(nodes[1])
		if !d.Allowed || d.Turn == nil {
			t.Fatalf("the second: %+v", d)
		}
		for _, key := range []string{"slow:a", "fast:a"} {
			if newest := nodes[0].logged(key)[0]; !newest.Equal(d.Turn.At.Time) {
				t.Errorf("%s has its newest entry at %s and not at the turn %s", key, newest, d.Turn.At)
			}
		}
		if a := nodes[0].send(del, nodes[0].check+v1.PathTurns+"/"+d.Turn.Handle, ""); !strings.Contains(string(a.body), `"made_room":true`) {
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
	a := n.send(post, n.check+v1.PathCheck, `{"keys":["token:good","token:bad"]}`)
	d := read[v1.KeysDecision](t, a)
	if a.status != http.StatusTooManyRequests || d.ID == "" || d.ID != d.Parts[1].ID || d.Parts[0].ID != "" {
		t.Fatalf("got %s", a.body)
	}
	text := ""
	await(t, "the refusal is in the report", func() bool {
		text = string(n.must(http.StatusOK, get, v1.PathOffenders+"?last=24h", "").body)
		return strings.Contains(text, "token:bad")
	})
	if strings.Contains(text, "token:good") {
		t.Errorf("the offenders are %s", text)
	}
}
