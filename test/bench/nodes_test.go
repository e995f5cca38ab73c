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
			group.Go(func() {
				rates[i] = load{"allow:", manyKeys, "none", 1, 96 / n, ""}.wrk(b, nodes[i], 3*time.Second).rate
			})
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

// histogram counts durations, in order, by decade and half decade.
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
