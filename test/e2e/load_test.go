package e2e_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
)

// onFailures are the values of on_failure, and the decision that a
// key within its limit gets in an outage.
var onFailures = map[string]string{"local": wire.Allowed, "allow": wire.Allowed, "deny": wire.Unavailable}

// load checks keys that were not used before, so that each request
// must be allowed, until it is stopped. Each key belongs to the policy of an
// on_failure; a blocked one is asked about in between.
type load struct {
	t      *testing.T
	node   *node
	stop   chan struct{}
	asking sync.WaitGroup

	mu    sync.Mutex
	asked map[string]wire.Decision // by key
	// counts are of the answers by on_failure, degraded and not.
	degraded, normal map[string]int
}

// startLoad makes the policies and the block, and asks.
func startLoad(t *testing.T, n *node) *load {
	t.Helper()
	for name := range onFailures {
		n.put(name, `{"match":["`+name+`:*"],"rules":["5/h"],"on_failure":"`+name+`"}`)
	}
	n.must(http.StatusCreated, post, wire.PathBlocks, `{"literal":true,"pattern":"local:bad"}`)
	l := &load{t: t, node: n, stop: make(chan struct{}), asked: map[string]wire.Decision{}, degraded: map[string]int{}, normal: map[string]int{}}
	for caller := range 4 {
		l.asking.Go(func() { l.ask(caller) })
	}
	t.Cleanup(l.end)
	return l
}

func (l *load) ask(caller int) {
	for i := 0; ; i++ {
		for name := range onFailures {
			select {
			case <-l.stop:
				return
			case <-time.After(20 * time.Millisecond): // leave processor time for other processes
			}
			l.one(name, fmt.Sprintf("%s:%d-%d", name, caller, i))
			if a, d := l.answer("local:bad"); a.status != http.StatusForbidden || d.Decision != wire.Blocked || d.Degraded {
				l.t.Errorf("a blocked key: got %d, want 403: %s", a.status, a.body)
			}
		}
	}
}

// answer asks about one key; the decision is empty where there was none.
func (l *load) answer(key string) (a answer, d wire.Decision) {
	a, err := try(post, l.node.check+wire.PathCheck, `{"key":"`+key+`","detail":"none"}`)
	if err == nil {
		err = json.Unmarshal(a.body, &d)
	}
	if err != nil {
		l.t.Errorf("a check: got %v, want an answer", err)
	}
	return a, d
}

func (l *load) one(name, key string) {
	a, d := l.answer(key)
	want := wire.Allowed
	if d.Degraded {
		want = onFailures[name]
	}
	if d.Decision != want || a.status != statuses[want] || d.Degraded != (d.DegradedReason != "") || d.Policy != wire.NullString(name) {
		l.t.Errorf("%s: got %d, want %s: %s", key, a.status, want, a.body)
	}
	if want == wire.Unavailable && a.header.Get("Retry-After") == "" {
		l.t.Errorf("%s: a 503 without Retry-After", key)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked[key] = d
	if d.Degraded {
		l.degraded[name]++
	} else {
		l.normal[name]++
	}
}

// awaitMore waits for a number of further answers of each on_failure, degraded
// or not.
func (l *load) awaitMore(degraded bool, more int) {
	l.t.Helper()
	counts := l.normal
	if degraded {
		counts = l.degraded
	}
	before := map[string]int{}
	l.mu.Lock()
	for name := range onFailures {
		before[name] = counts[name]
	}
	l.mu.Unlock()
	servers.Await(l.t, fmt.Sprintf("%d more answers of each policy, degraded %v", more, degraded), func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for name := range onFailures {
			if counts[name] < before[name]+more {
				return false
			}
		}
		return true
	})
}

// end stops asking.
func (l *load) end() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.asking.Wait()
}

// wantChargedOnce checks every key of the load: a check that the log
// allowed is in it once, and no check is in it more often. lost means that the
// log was lost.
func (l *load) wantChargedOnce(lost bool) {
	l.t.Helper()
	for keys := range slices.Chunk(slices.Collect(maps.Keys(l.asked)), wire.MaxBatch) {
		for i, charged := range l.charged(keys) {
			switch d := l.asked[keys[i]]; {
			case charged > 1:
				l.t.Errorf("one check of %s is charged %d times", keys[i], charged)
			case charged == 0 && !d.Degraded && !lost:
				l.t.Errorf("%s was allowed and is not in the log", keys[i])
			}
		}
	}
}

// charged returns how often each key is in the log. It retries if a busy
// machine looks like an outage.
func (l *load) charged(keys []string) []int {
	l.t.Helper()
	checks := make([]string, len(keys))
	for i, key := range keys {
		checks[i] = `{"key":"` + key + `","peek":true,"detail":"rules"}`
	}
	counts := make([]int, len(keys))
	servers.Await(l.t, "the log answers for all keys", func() bool {
		a := l.node.send(post, l.node.check+wire.PathBatch, `{"checks":[`+strings.Join(checks, ",")+`]}`)
		for i, item := range read[wire.BatchAnswer](l.t, a).Decisions {
			if item.Decision == nil || item.Decision.Degraded {
				return false
			}
			counts[i] = item.Decision.Rules[0].Limit - item.Decision.Rules[0].Remaining
		}
		return true
	})
	return counts
}
