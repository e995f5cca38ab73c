package e2e_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
)

// Each change of the algorithm starts an empty log, so that up to N more may be
// allowed, and no more than that.
func TestChangingTheAlgorithmUnderLoadKeepsTheLimit(t *testing.T) {
	onBothBackends(t, func(t *testing.T, nodes [2]*node) {
		const limit = 20
		all := read[wire.Page[wire.Algorithm]](t, nodes[0].must(200, get, wire.PathAlgorithms, "")).Items
		change := func(name string) {
			nodes[0].put("moving", fmt.Sprintf(`{"match":["moving:*"],"rules":["%d/31d"],"algorithm":"%s"}`, limit, name))
		}
		change(all[0].Name)
		servers.Await(t, "both nodes know the policy", func() bool {
			x := nodes[1].explain("moving:nobody")
			return x.Policy != nil && x.Policy.Name == "moving"
		})
		stop, changes := make(chan struct{}), 0
		var allowed, refused [4]int
		var clients sync.WaitGroup
		for c := range allowed {
			clients.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					a, err := try(post, nodes[i%2].check+wire.PathCheck, `{"key":"moving:a"}`)
					if err != nil {
						t.Error(err)
						return
					}
					d := decided(t, a)
					if d.Degraded {
						t.Errorf("a check was degraded: %s", a.body)
					}
					if d.Allowed {
						allowed[c]++
					} else {
						refused[c]++
					}
				}
			})
		}
		for range 2 {
			for _, a := range all[1:] {
				change(a.Name)
				changes++
				servers.Await(t, "the other node counts by "+a.Name, func() bool { return nodes[1].explain("moving:a").Policy.Algorithm == a.Name })
				servers.Await(t, a.Name+" refuses", func() bool { return !nodes[1].explain("moving:a").Policy.Allowed })
			}
		}
		close(stop)
		clients.Wait()
		total, refusals := 0, 0
		for c := range allowed {
			total, refusals = total+allowed[c], refusals+refused[c]
		}
		if total > limit*(changes+1) || total < limit || refusals == 0 {
			t.Errorf("after %d changes %d were allowed and %d refused, want at most %d allowed", changes, total, refusals, limit*(changes+1))
		}
	})
}

func TestEveryAlgorithmLimitsExplainsAndResets(t *testing.T) {
	onBothBackends(t, func(t *testing.T, nodes [2]*node) {
		for _, a := range read[wire.Page[wire.Algorithm]](t, nodes[0].must(200, get, wire.PathAlgorithms, "")).Items {
			policy(t, nodes, a.Name, fmt.Sprintf(`{"match":["%s:*"],"rules":["3/31d"],"algorithm":"%s"}`, a.Name, a.Name))
			key := a.Name + ":a"
			for i := range 3 {
				if d := nodes[i%2].about(key); !d.Allowed || d.Rules[0].Remaining != 2-i {
					t.Errorf("%s, request %d: got %+v", a.Name, i, d)
				}
			}
			if d := nodes[1].about(key); d.Allowed || d.Rule != "3/31d" || d.ID == "" || *d.RetryAfterMS <= 0 {
				t.Errorf("%s, a check beyond the limit: got %+v", a.Name, d)
			}
			x := nodes[0].explain(key).Policy
			if x.Allowed || x.Algorithm != a.Name || x.Rules[0].Used != 3 || x.Rules[0].Remaining != 0 || x.Rules[0].RetryAt.IsZero() {
				t.Errorf("%s: got the explanation %+v", a.Name, x)
			}
			nodes[0].must(200, del, wire.PathKeys+"?key="+key, "")
			if d := nodes[0].about(key); !d.Allowed {
				t.Errorf("%s, a check after a reset: got %+v", a.Name, d)
			}
		}
	})
}
