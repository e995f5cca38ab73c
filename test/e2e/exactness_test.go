package e2e_test

import (
	"cmp"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
)

// refusal is the data of a limited answer: when it was decided, by the
// log's clock, and by which rule.
type refusal struct {
	at, retryAt time.Time
	rule        wire.NullString
}

// storm sends checks of one key from many clients to the nodes and returns how often it
// was allowed, and every refusal.
func storm(t *testing.T, nodes []*node, key string, clients, each int) (allowed int, refusals []refusal) {
	t.Helper()
	var mu sync.Mutex
	var group sync.WaitGroup
	for c := range clients {
		group.Go(func() {
			for i := range each {
				n := nodes[(c+i)%len(nodes)]
				a, err := try(post, n.check+wire.PathCheck, `{"key":"`+key+`","detail":"none"}`)
				if err != nil {
					t.Error(err)
					return
				}
				d := read[wire.Decision](t, a)
				mu.Lock()
				switch {
				case d.Degraded:
					t.Errorf("a check was degraded, maybe by a busy machine: %s", a.body)
				case a.status == http.StatusOK:
					allowed++
				default:
					wait := time.Duration(*d.RetryAfterMS) * time.Millisecond
					refusals = append(refusals, refusal{d.RetryAt.Add(-wait), d.RetryAt.Time, d.Rule})
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return allowed, refusals
}

func TestConcurrentClientsAreAllowedExactlyTheLimit(t *testing.T) {
	nodes := shared(t).start(t, 2)
	nodes[0].put("exact", `{"match":["token:exact"],"rules":["100/h"]}`)
	servers.Await(t, "both nodes know the policy", func() bool { return nodes[1].ask(`{"key":"token:exact","peek":true}`).Policy == "exact" })
	allowed, refusals := storm(t, nodes, "token:exact", 32, 10)
	if allowed != 100 || len(refusals) != 220 {
		t.Errorf("of 320 requests %d were allowed and %d refused, want 100 and 220", allowed, len(refusals))
	}
	if logged := nodes[0].logged("token:exact"); len(logged) != 100 {
		t.Errorf("the log has %d requests, want 100", len(logged))
	}
}

// The windows of the short rules slide during the storm. The log,
// with the clock of Redis, has the exact times.
func TestSlidingWindowsNeverExceedTheLimitOrRefuseNeedlessly(t *testing.T) {
	nodes := shared(t).start(t, 2)
	limits := map[wire.NullString]struct {
		max    int
		window time.Duration
	}{"10/100ms": {10, 100 * time.Millisecond}, "30/1s": {30, time.Second}, "900/1h": {900, time.Hour}}
	nodes[0].put("exact", `{"match":["token:exact"],"rules":["10/100ms","30/s","900/h"]}`)
	servers.Await(t, "both nodes know the policy", func() bool { return nodes[1].ask(`{"key":"token:exact","peek":true}`).Policy == "exact" })

	allowed, refusals := storm(t, nodes, "token:exact", 16, 100)
	logged := nodes[1].logged("token:exact")
	slices.SortFunc(logged, time.Time.Compare)
	if allowed != len(logged) || allowed == 0 || len(refusals) == 0 {
		t.Fatalf("%d requests were allowed, %d refused, %d logged", allowed, len(refusals), len(logged))
	}
	// within counts the requests in the window that ends with an instant.
	within := func(end time.Time, window time.Duration) int {
		from, _ := slices.BinarySearchFunc(logged, end.Add(-window), func(at, start time.Time) int {
			return cmp.Or(at.Compare(start), -1) // half open: the start is outside
		})
		to, _ := slices.BinarySearchFunc(logged, end, func(at, end time.Time) int { return cmp.Or(at.Compare(end), -1) })
		return to - from
	}
	for _, limit := range limits {
		for _, at := range logged {
			if got := within(at, limit.window); got > limit.max {
				t.Fatalf("%d requests in the %s before %s, want at most %d", got, limit.window, at, limit.max)
			}
		}
	}
	for _, r := range refusals {
		limit, known := limits[r.rule]
		if !known {
			t.Fatalf("a request was refused by the unknown rule %q", r.rule)
		}
		// Other requests of the same millisecond may have arrived later, which can only
		// explain a refusal.
		if got := within(r.at, limit.window); got < limit.max {
			t.Errorf("a request was refused at %s by %s although its window had only %d", r.at, r.rule, got)
		}
		if _, found := slices.BinarySearchFunc(logged, r.retryAt.Add(-limit.window), time.Time.Compare); !found {
			t.Errorf("RetryAt is %s, which is not a window after any request in the log", r.retryAt)
		}
	}
}
