package e2e_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
)

const (
	keyLimit  = 5 // of each key of the load, an hour
	keyAsks   = 8 // of all nodes about each key, so that the limit is reached
	slideMax  = 10
	slide     = time.Second // 10/1s for the keys that are asked about all the time
	answersOf = 12          // how many answers of each on_failure a phase of a row lasts
)

// faultLoad asks all nodes about the same keys: about each, more often than its
// limit, and about a blocked one in between. It keeps every answer.
type faultLoad struct {
	w      *world
	row    fault
	at     []atomic.Pointer[string] // the base URL of each node
	each   int                      // how often each node is asked about a key
	stop   chan struct{}
	asking sync.WaitGroup
	began  time.Time

	mu     sync.Mutex
	keys   map[string]*askedKey
	slides map[string][]given
	counts []map[string]int // by node: "local degraded", "local normal"
	last   []time.Time      // answer of each node
	gap    time.Duration
	wrong  []string
	fewer  atomic.Int64 // checks without an answer
}

// askedKey counts the answers about one key.
type askedKey struct {
	allowed, limited, degraded, lost, asked int
	local                                   []int // allowed while degraded, by node
}

// given is one check that was answered.
type given struct {
	sent, got         time.Duration // since the beginning
	allowed, degraded bool
}

func startFaultLoad(w *world, row fault) *faultLoad {
	w.Helper()
	l := &faultLoad{w: w, row: row, stop: make(chan struct{}), began: time.Now(), keys: map[string]*askedKey{}, slides: map[string][]given{},
		at: make([]atomic.Pointer[string], len(w.nodes)), each: keyAsks / len(w.nodes)}
	for name := range onFailures {
		w.nodes[0].put(name, fmt.Sprintf(`{"match":["%s:*"],"rules":["%d/h"],"on_failure":"%s"}`, name, keyLimit, name))
	}
	w.nodes[0].put("slide", fmt.Sprintf(`{"match":["slide:*"],"rules":["%d/1s"],"on_failure":"deny"}`, slideMax))
	w.nodes[0].must(http.StatusCreated, post, wire.PathBlocks, `{"literal":true,"pattern":"local:bad"}`)
	for i, n := range w.nodes {
		l.at[i].Store(&n.check)
		l.counts, l.last = append(l.counts, map[string]int{}), append(l.last, time.Time{})
		servers.Await(w, "every node knows the policies and the block", func() bool {
			for _, name := range []string{"local", "allow", "deny", "slide"} {
				if n.ask(`{"key":"`+name+`:nobody","peek":true}`).Policy != wire.NullString(name) {
					return false
				}
			}
			return n.ask(`{"key":"local:bad","peek":true}`).Decision == wire.Blocked
		})
		l.asking.Go(func() { l.ask(i) })
		l.asking.Go(func() { l.slide(i) })
	}
	w.Cleanup(l.end)
	return l
}

// ended reports whether to stop, after a short pause: the machine is shared.
func (l *faultLoad) ended() bool {
	select {
	case <-l.stop:
		return true
	case <-time.After(5 * time.Millisecond):
		return false
	}
}

func (l *faultLoad) ask(i int) {
	for at := 0; ; at++ {
		for name := range onFailures {
			for range l.each {
				if l.ended() {
					return
				}
				l.one(i, name, fmt.Sprintf("%s:%d", name, at))
			}
		}
		if a, d, err := l.answer(i, "local:bad"); err == nil && (a.status != http.StatusForbidden || d.Decision != wire.Blocked || d.Degraded) {
			l.fail("node %d let a blocked key through: %d %s", i, a.status, a.body)
		}
	}
}

func (l *faultLoad) slide(i int) {
	for at := 0; !l.ended(); at++ {
		key := fmt.Sprintf("slide:%d", at%3)
		sent := time.Since(l.began)
		_, d, err := l.answer(i, key)
		if err != nil {
			continue
		}
		l.mu.Lock()
		l.slides[key] = append(l.slides[key], given{sent, time.Since(l.began), d.Allowed, d.Degraded})
		l.mu.Unlock()
	}
}

// answer asks node i about a key. An error says that there was no answer, which
// which only a node in the row's silent may do.
func (l *faultLoad) answer(i int, key string) (a answer, d wire.Decision, err error) {
	a, err = try(post, *l.at[i].Load()+wire.PathCheck, `{"key":"`+key+`","detail":"none"}`)
	if err == nil {
		if err = json.Unmarshal(a.body, &d); err == nil && d.Decision == "" {
			err = errors.New(string(a.body))
		}
	}
	if err != nil {
		l.fewer.Add(1)
		if !slices.Contains(l.row.silent, i) {
			l.fail("node %d gave no decision: %v", i, err)
		}
		time.Sleep(20 * time.Millisecond)
		return a, d, err
	}
	if statuses[d.Decision] != a.status || d.Degraded != (d.DegradedReason != "") || d.Decision == wire.Unavailable && a.header.Get("Retry-After") == "" {
		l.fail("the status %d does not fit the answer: %s", a.status, a.body)
	}
	if d.Degraded && !l.row.mayDegrade && !slices.Contains(l.row.degrades, i) {
		l.fail("node %d is degraded: %s", i, a.body)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if !l.last[i].IsZero() {
		l.gap = max(l.gap, now.Sub(l.last[i]))
	}
	l.last[i] = now
	return a, d, nil
}

func (l *faultLoad) one(i int, name, key string) {
	_, d, err := l.answer(i, key)
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.keys[key]
	if k == nil {
		k = &askedKey{local: make([]int, len(l.w.nodes))}
		l.keys[key] = k
	}
	k.asked++
	switch {
	case err != nil:
		k.lost++
		return
	case d.Degraded:
		k.degraded++
		l.counts[i][name+" degraded"]++
		if d.Allowed {
			k.local[i]++
		}
		// local keeps the same limit; allow and deny do as they say.
		if want := onFailures[name]; d.Decision != want && (name != "local" || d.Decision != wire.Limited) {
			l.wrong = append(l.wrong, fmt.Sprintf("%s is answered %s while degraded", key, d.Decision))
		}
	case d.Allowed:
		k.allowed++
	case d.Decision == wire.Limited:
		k.limited++
	default:
		l.wrong = append(l.wrong, fmt.Sprintf("%s is answered %s", key, d.Decision))
	}
	if !d.Degraded {
		l.counts[i][name+" normal"]++
	}
}

func (l *faultLoad) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong = append(l.wrong, fmt.Sprintf(format, args...))
}

// await waits until node i has answered about keys of each on_failure more
// often, degraded or not.
func (l *faultLoad) await(i int, degraded bool) {
	l.w.Helper()
	kind := map[bool]string{true: " degraded", false: " normal"}[degraded]
	want := map[string]int{}
	l.mu.Lock()
	for name := range onFailures {
		want[name] = l.counts[i][name+kind] + answersOf
	}
	l.mu.Unlock()
	servers.Await(l.w, fmt.Sprintf("node %d gives answers that are%s", i, kind), func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for name, n := range want {
			if l.counts[i][name+kind] < n {
				return false
			}
		}
		return true
	})
}

func (l *faultLoad) awaitAll(degraded bool) {
	l.w.Helper()
	for i := range l.w.nodes {
		l.await(i, degraded)
	}
}

func (l *faultLoad) end() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.asking.Wait()
}

// outcome is the result of one row.
type outcome struct {
	answers, degraded, unanswered, lost, charged int
	gap                                          time.Duration
}

// judge ends the load and checks every promise of the log with all answers.
func (l *faultLoad) judge() *outcome {
	l.w.Helper()
	l.end()
	o := &outcome{gap: l.gap, unanswered: int(l.fewer.Load())}
	for _, wrong := range l.wrong[:min(len(l.wrong), 10)] {
		l.w.Error(wrong)
	}
	names := slices.Sorted(maps.Keys(l.keys))
	for some := range slices.Chunk(names, wire.MaxBatch) {
		for i, charged := range l.charged(some) {
			l.judgeKey(o, some[i], l.keys[some[i]], charged)
		}
	}
	for key, all := range l.slides {
		o.answers += len(all)
		l.judgeSlide(key, all)
	}
	return o
}

func (l *faultLoad) judgeKey(o *outcome, name string, k *askedKey, charged int) {
	l.w.Helper()
	o.answers += k.asked - k.lost
	o.degraded += k.degraded
	limit := keyLimit * (1 + l.row.loses)
	if k.allowed > limit {
		l.w.Errorf("%s: %d answers that are not degraded allowed it, want at most %d", name, k.allowed, limit)
	}
	if k.degraded+k.lost == 0 && l.row.loses == 0 && k.asked == keyAsks && k.allowed != keyLimit {
		l.w.Errorf("of %d checks of %s %d were allowed, want %d", k.asked, name, k.allowed, keyLimit)
	}
	if strings.HasPrefix(name, "local:") {
		for i, local := range k.local {
			if local > keyLimit {
				l.w.Errorf("node %d allowed %s %d times while degraded", i, name, local)
			}
		}
	}
	if l.row.loses == 0 && charged < k.allowed {
		l.w.Errorf("%s was allowed %d times and the log has only %d", name, k.allowed, charged)
	}
	o.lost += max(0, k.allowed-charged)
	if extra := charged - k.allowed; extra > 0 {
		o.charged += extra
		if extra > k.degraded+k.lost {
			l.w.Errorf("%s was charged %d times more than it was allowed, and only %d of its checks had no answer from the log", name, extra, k.degraded+k.lost)
		}
	}
}

// judgeSlide looks for more than the limit among checks that are certainly
// within one window: between sending the first and the answer to the last.
// The log counts in whole milliseconds. A window is skipped
// if a check near it had no answer from the log.
func (l *faultLoad) judgeSlide(key string, all []given) {
	l.w.Helper()
	var allowed, degraded []given
	for _, g := range all {
		if g.degraded {
			degraded = append(degraded, g)
		} else if g.allowed {
			allowed = append(allowed, g)
		}
	}
	slices.SortFunc(allowed, func(a, b given) int { return int(a.got - b.got) })
	limit := slideMax * (1 + l.row.loses)
	for i := range allowed {
		if i < limit {
			continue
		}
		from, to := allowed[i].sent, allowed[i].got
		for _, g := range allowed[i-limit : i] {
			from = min(from, g.sent)
		}
		if to-from > slide-time.Millisecond || slices.ContainsFunc(degraded, func(g given) bool { return g.got > from-slide && g.sent < to+slide }) {
			continue
		}
		l.w.Errorf("%s was allowed %d times within %s", key, limit+1, to-from)
		return
	}
}

// charged returns how often each key is in the log.
func (l *faultLoad) charged(keys []string) []int {
	l.w.Helper()
	checks := make([]string, len(keys))
	for i, key := range keys {
		checks[i] = `{"key":"` + key + `","peek":true,"detail":"rules"}`
	}
	counts := make([]int, len(keys))
	servers.Await(l.w, "the log answers for all keys", func() bool {
		n := l.w.nodes[0]
		a := n.send(post, n.check+wire.PathBatch, `{"checks":[`+strings.Join(checks, ",")+`]}`)
		for i, item := range read[wire.BatchAnswer](l.w, a).Decisions {
			if item.Decision == nil || item.Decision.Degraded {
				return false
			}
			counts[i] = item.Decision.Rules[0].Limit - item.Decision.Rules[0].Remaining
		}
		return true
	})
	return counts
}
