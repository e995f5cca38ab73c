package bench_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// severalNodes measures nodes that share the backends of the first.
func severalNodes(b *testing.B, r *report, p programs, first node, backends []string) {
	nodes := []node{first, startNode(b, p, backends...), startNode(b, p, backends...)}
	r.begin("Several nodes", "All nodes, Redis, Postgres and the load share the machine's cores, so this shows what sharing costs and not what machines add.")
	for n := 1; n <= len(nodes); n++ {
		rates := make([]float64, n)
		var group sync.WaitGroup
		for i := range n {
			group.Go(func() { rates[i] = load{"allow:", manyKeys, "none", 1, 96 / n}.wrk(b, nodes[i], 3*time.Second).rate })
		}
		group.Wait()
		total := 0.0
		for _, rate := range rates {
			total += rate
		}
		r.add(fmt.Sprintf("checks/s of %d nodes, 96 connections together", n), fmt.Sprintf("%.0fk", total/1e3))
	}
	r.add("one key of a limit of 500/1h, asked 3,000 times of 3 nodes at once", fmt.Sprintf("%d allowed", allowedOfOneKey(b, nodes)))
	propagation(b, r, nodes[0], nodes[1])
}

// allowedOfOneKey asks all nodes about one key.
func allowedOfOneKey(b *testing.B, nodes []node) int64 {
	var allowed atomic.Int64
	var group sync.WaitGroup
	for caller := range 12 {
		group.Go(func() {
			for range 250 {
				if status, _ := call(b, http.MethodPost, "http://"+nodes[caller%len(nodes)].checks+"/v1/check", `{"key":"exact:one"}`); status == http.StatusOK {
					allowed.Add(1)
				}
			}
		})
	}
	group.Wait()
	return allowed.Load()
}

// propagation adds blocks on one node and waits, for one in 20 of them, until
// the other refuses.
func propagation(b *testing.B, r *report, from, to node) {
	const lasting, wanted = 5 * time.Second, 1000
	var (
		mu      sync.Mutex
		took    []time.Duration
		added   atomic.Int64
		adding  sync.WaitGroup
		waiting sync.WaitGroup
	)
	begin := time.Now()
	for range 8 {
		adding.Go(func() {
			for {
				n := added.Add(1)
				due := begin.Add(time.Duration(n) * time.Second / wanted)
				if due.Sub(begin) > lasting || time.Since(begin) > lasting {
					added.Add(-1)
					return
				}
				time.Sleep(time.Until(due))
				key := fmt.Sprintf("late:%d", n)
				from.admit(b, http.MethodPost, "/v1/blocks", fmt.Sprintf(`{"pattern":%q,"reason":"bench"}`, key))
				acknowledged := time.Now()
				if n%20 != 0 {
					continue
				}
				waiting.Go(func() {
					eventually(b, "a block arrives", func() bool {
						status, _ := call(b, http.MethodPost, "http://"+to.checks+"/v1/check", fmt.Sprintf(`{"key":%q,"detail":"none"}`, key))
						return status == http.StatusForbidden
					})
					mu.Lock()
					took = append(took, time.Since(acknowledged))
					mu.Unlock()
				})
			}
		})
	}
	adding.Wait()
	spent := time.Since(begin)
	waiting.Wait()
	slices.Sort(took)
	rest := fmt.Sprintf("ms (median %s, longest %s, of %d; seen by asking every 20 ms; %.0f blocks/s were added)",
		round(percentile(took, 50)), round(took[len(took)-1]), len(took), float64(added.Load())/spent.Seconds())
	r.atMost("from a block's acknowledgement to the other node's refusal, p99", float64(percentile(took, 99))/1e6, 100, "%.0f", rest)
	r.add("the same as a histogram", histogram(took))
}

// histogram counts durations by decade and half decade.
func histogram(all []time.Duration) string {
	var parts []string
	from := 0
	for _, upTo := range []int64{1, 5, 10, 25, 50, 100, 250, 1000} {
		n, _ := slices.BinarySearch(all, time.Duration(upTo)*time.Millisecond)
		parts = append(parts, fmt.Sprintf("under %d ms: %d", upTo, n-from))
		from = n
	}
	return strings.Join(parts, ", ") + fmt.Sprintf(", longer: %d", len(all)-from)
}
