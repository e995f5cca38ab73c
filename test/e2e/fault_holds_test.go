package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
)

// What a key of the holders may have: at once, and charged and held in an hour.
const (
	holdPlaces  = 8
	holdBudget  = 4000
	longestHold = 3 * time.Second
	holders     = 64
)

// longStreams makes what is held for last 1 to 60 s, as the answers of language models do, instead of less than
// a third of a second. The test then takes minutes: STINT_TEST_LONG_STREAMS=1 go test ./test/e2e -run TestHoldersThroughFaults.
var longStreams = os.Getenv("STINT_TEST_LONG_STREAMS") != ""

// streams waits while a holder streams, and renews its hold. It returns early when the load ends.
func (l *holderLoad) streams(random *rand.Rand, k *heldKey, handle string) {
	renew := func() {
		sent := time.Now()
		a, err := l.post(random, post, wire.PathHolds+"/"+handle+"/extend", fmt.Sprintf(`{"hold":"%s"}`, longestHold))
		if err == nil && a.status == http.StatusOK { // otherwise it expires
			l.mu.Lock()
			k.open[handle] = sent.Add(longestHold)
			l.mu.Unlock()
		}
	}
	if !longStreams {
		for range random.IntN(4) {
			if l.ended(random) {
				return
			}
			renew()
		}
		return
	}
	ends := time.After(time.Duration(1000+random.IntN(59_000)) * time.Millisecond)
	for {
		select {
		case <-l.stop:
			return
		case <-ends:
			return
		case <-time.After(longestHold / 3):
			renew()
		}
	}
}

// holderLoad has callers that hold an estimate at either node, extend it, settle it at the end, or are killed.
type holderLoad struct {
	w      *world
	loses  int // see fault
	stop   chan struct{}
	asking sync.WaitGroup

	mu       sync.Mutex
	keys     [4]heldKey
	answered int // checks that were allowed, since the last await
}

// heldKey is what callers know about a key.
type heldKey struct {
	open map[string]time.Time // handles that nobody has begun to settle, with the time at which they expire
	// charged is what the log must have, as far as it is known: open estimates and what was used. unsure
	// is what it may have in addition, because an answer was lost or a hold ended twice.
	charged, unsure int
}

func startHolders(w *world, loses int) *holderLoad {
	w.Helper()
	l := &holderLoad{w: w, loses: loses, stop: make(chan struct{})}
	w.nodes[0].put("tokens", fmt.Sprintf(`{"match":["team:*"],"unit":"tokens","rules":["%d concurrent","%d/1h"],"hold":"%s","on_failure":"deny"}`,
		holdPlaces, holdBudget, longestHold))
	for _, n := range w.nodes {
		servers.Await(w, "every node knows the policy", func() bool { return n.ask(`{"key":"team:nobody","peek":true}`).Policy == "tokens" })
	}
	for i := range l.keys {
		l.keys[i].open = map[string]time.Time{}
	}
	for i := range uint64(holders) {
		random := rand.New(rand.NewPCG(i, 49)) //nolint:gosec // a test
		l.asking.Go(func() {
			for !l.ended(random) {
				l.hold(random)
			}
		})
	}
	w.Cleanup(l.end)
	return l
}

// ended reports whether to stop, after a pause.
func (l *holderLoad) ended(random *rand.Rand) bool {
	select {
	case <-l.stop:
		return true
	case <-time.After(time.Duration(20+random.IntN(60)) * time.Millisecond):
		return false
	}
}

func (l *holderLoad) end() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.asking.Wait()
}

// post sends a request to a node that is running.
func (l *holderLoad) post(random *rand.Rand, method, path, body string) (answer, error) {
	n := l.w.nodes[random.IntN(len(l.w.nodes))]
	for !n.running() {
		n = l.w.nodes[random.IntN(len(l.w.nodes))]
	}
	return try(method, n.check+path, body)
}

// hold is one caller from its check to its end.
func (l *holderLoad) hold(random *rand.Rand) {
	at, estimate := random.IntN(len(l.keys)), 1+random.IntN(60)
	k := &l.keys[at]
	sent := time.Now()
	a, err := l.post(random, post, wire.PathCheck, fmt.Sprintf(`{"key":"team:%d","cost":%d,"detail":"none"}`, at, estimate))
	var d wire.Decision
	if err == nil {
		err = json.Unmarshal(a.body, &d)
	}
	l.mu.Lock()
	if err != nil || d.Degraded || d.Decision == "" {
		k.unsure += estimate // it may be held
		l.mu.Unlock()
		return
	}
	if !d.Allowed {
		l.mu.Unlock()
		return
	}
	if d.Hold == nil {
		l.w.Errorf("allowed and not held: %s", a.body)
		l.mu.Unlock()
		return
	}
	l.answered++
	handle := d.Hold.Handle
	k.open[handle] = sent.Add(longestHold) // or somewhat later
	k.charged += estimate
	places := 0
	for _, expires := range k.open {
		if time.Now().Before(expires) {
			places++
		}
	}
	if most := holdPlaces * (1 + l.loses); places > most {
		l.w.Errorf("team:%d has %d open holds, want at most %d", at, places, most)
	}
	if most := holdBudget * (1 + l.loses); k.charged > most {
		l.w.Errorf("team:%d has %d charged and held, want at most %d", at, k.charged, most)
	}
	l.mu.Unlock()
	l.streams(random, k, handle)
	if random.IntN(4) == 0 {
		return // the holder is killed
	}
	l.settle(random, k, handle, estimate, random.IntN(estimate+1))
}

// settle repeats a settlement until it is answered.
func (l *holderLoad) settle(random *rand.Rand, k *heldKey, handle string, estimate, used int) {
	l.mu.Lock()
	delete(k.open, handle)
	k.charged -= estimate - used
	k.unsure += estimate - used
	l.mu.Unlock()
	for tries := 0; ; tries++ {
		a, err := l.post(random, post, wire.PathHolds+"/"+handle, fmt.Sprintf(`{"cost":%d}`, used))
		if err != nil || a.status == http.StatusServiceUnavailable {
			time.Sleep(20 * time.Millisecond) // the machine is shared
			continue
		}
		var p wire.Problem
		_ = json.Unmarshal(a.body, &p)
		l.mu.Lock()
		defer l.mu.Unlock()
		switch {
		case a.status == http.StatusOK:
			k.unsure -= estimate - used
			s := read[wire.SettledHold](l.w, a)
			if s.Held != estimate || s.Cost != used || s.Over > 0 && l.loses == 0 {
				l.w.Errorf("settled as %s, want %d of %d", a.body, used, estimate)
			}
		case a.status == http.StatusGone: // it expired, and its estimate stays; or the log was lost
		default:
			l.w.Errorf("settled with %d %s", a.status, a.body)
		}
		return
	}
}

// await waits until many more checks were allowed or the budgets are used up.
func (l *holderLoad) await() {
	l.w.Helper()
	l.mu.Lock()
	l.answered = 0
	l.mu.Unlock()
	many := 30
	if longStreams {
		many = 5
	}
	servers.Await(l.w, "holders are answered", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.answered >= many || !slices.ContainsFunc(l.keys[:], func(k heldKey) bool { return k.charged < holdBudget*3/4 })
	})
}

// judge ends the load and compares what is charged with what the callers know, once the longest hold has
// expired.
func (l *holderLoad) judge(n *node) {
	l.w.Helper()
	l.end()
	for i := range l.keys {
		k, key := &l.keys[i], fmt.Sprintf("team:%d", i)
		var policy *wire.KeyPolicy
		servers.Await(l.w, "no place of "+key+" is taken after the longest hold", func() bool {
			x := n.explain(key)
			policy = x.Policy
			return !x.Degraded && policy.Rules[0].Used == 0 && len(policy.Holds) == 0
		})
		used := policy.Rules[1].Used
		if used > holdBudget || used > k.charged+k.unsure || l.loses == 0 && used < k.charged {
			l.w.Errorf("%s: %d is charged, and callers know of %d to %d of %d", key, used, k.charged, k.charged+k.unsure, holdBudget)
		}
		if k.charged == 0 {
			l.w.Errorf("%s: nothing was charged", key)
		}
		for range min(holdPlaces, holdBudget-used) {
			if d := n.ask(`{"key":"` + key + `","cost":1}`); !d.Allowed || d.Hold == nil {
				l.w.Errorf("%s: a place is lost: %+v", key, d)
			}
		}
	}
}

// Holders at two nodes are killed at random while Redis is killed, a primary is failed over, and a node dies:
// never more is charged and held than the policy allows, but for what a failover loses, and no place is
// lost after the longest hold.
func TestHoldersThroughFaults(t *testing.T) {
	for _, row := range faults() {
		node := row.name == "Redis slow"
		if !node && !slices.Contains([]string{"Redis killed", "Cluster: a primary is failed over", "Sentinel: the primary is failed over"}, row.name) {
			continue
		}
		name := row.name
		if node {
			name = "a node is killed"
		}
		t.Run(name, func(t *testing.T) {
			w := &world{}
			if row.start != nil {
				w = row.start(t)
			} else {
				w = pair(t, row.deadline, false, servers.DedicatedRedis(t, row.redisArgs...))
			}
			w.T = t
			l := startHolders(w, row.loses)
			l.await()
			row.inflict(w)
			if node {
				w.nodes[1].end(syscall.SIGKILL)
			}
			row.heal(w)
			l.await()
			l.judge(w.nodes[0])
		})
	}
}
