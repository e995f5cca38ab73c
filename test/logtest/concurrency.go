package logtest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stint-dev/stint/internal/timestamplog"
)

func concurrency() []contract {
	return []contract{
		{"many callers of one key are allowed exactly the limit", oneKeyManyCallers},
		{"many callers over time never exceed a limit and are never needlessly refused", manyCallersOverTime},
		{"many callers of many keys in batches are allowed exactly each key's limit", manyKeysManyCallers},
	}
}

const callers = 16

// concurrently runs call once for each of the callers, all at the same time.
func concurrently(call func(caller int)) {
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() { call(caller) })
	}
	group.Wait()
}

func oneKeyManyCallers(t *testing.T, h Harness) {
	f := newFixture(t, h, "70/s", "100/m")
	for phase, want := range []int{70, 30, 0} {
		f.at(int64(phase) * second)
		var mu sync.Mutex
		allowed := 0
		concurrently(func(int) {
			for range 10 {
				r := f.decideInGoroutine(f.request(1))
				mu.Lock()
				if r.Allowed {
					allowed++
				}
				mu.Unlock()
			}
		})
		if allowed != want {
			t.Errorf("phase %d: %d of %d requests were allowed, want %d", phase, allowed, 10*callers, want)
		}
	}
}

// decideInGoroutine is decide for goroutines other than the test's.
func (f *fixture) decideInGoroutine(q timestamplog.Request) timestamplog.Result {
	results := make([]timestamplog.Result, 1)
	f.Log.Decide(f.t.Context(), []timestamplog.Request{q}, results)
	if results[0].Err != nil {
		f.t.Errorf("Decide: %v", results[0].Err)
	}
	return results[0]
}

// answeredCost is the cost of one request of a phase and its answer.
type answeredCost struct {
	cost int
	timestamplog.Result
}

// manyCallersOverTime does not move the clock while the callers send requests, so that what
// is allowed can be computed exactly, in whatever order they arrive.
func manyCallersOverTime(t *testing.T, h Harness) {
	f := newFixture(t, h, "7/20ms", "15/100ms", "40/s")
	random := rand.New(rand.NewPCG(1, 2))
	var all []answeredCost
	for range 60 {
		costs := make([]int, callers)
		for i := range costs {
			costs[i] = 1 + random.IntN(5)
		}
		phase := make([]answeredCost, callers)
		concurrently(func(caller int) {
			phase[caller] = answeredCost{costs[caller], f.decideInGoroutine(f.request(costs[caller]))}
		})
		all = append(all, phase...)
		f.checkPhase(all, phase)
		f.Clock.Set(f.Clock.NowMS() + int64(random.IntN(30)))
	}
}

// checkPhase checks the answers of the present instant against the costs that
// were allowed up to now.
func (f *fixture) checkPhase(all, phase []answeredCost) {
	f.t.Helper()
	now := f.Clock.NowMS()
	smallestRefused := 0
	for _, a := range phase {
		if a.Now != now {
			f.t.Errorf("Decide: Now is %d, want the clock's %d", a.Now, now)
		}
		if !a.Allowed && (smallestRefused == 0 || a.cost < smallestRefused) {
			smallestRefused = a.cost
		}
	}
	needless := smallestRefused > 0
	for _, rule := range f.policy.Rules {
		used := 0
		for _, a := range all {
			if a.Allowed && now-a.Now < rule.WindowMS() {
				used += a.cost
			}
		}
		if used > rule.Limit {
			f.t.Errorf("rule %v: a cost of %d is in the window that ends at +%d, more than its limit", rule, used, now-f.start)
		}
		needless = needless && used+smallestRefused <= rule.Limit
	}
	if needless {
		f.t.Errorf("Decide at +%d: a cost of %d was refused although it fits", now-f.start, smallestRefused)
	}
}

func manyKeysManyCallers(t *testing.T, h Harness) {
	f := newFixture(t, h, "9/m")
	const keyCount = 50
	var mu sync.Mutex
	allowed := make([]int, keyCount)
	concurrently(func(caller int) {
		requests := make([]timestamplog.Request, keyCount)
		results := make([]timestamplog.Result, keyCount)
		for i := range requests {
			requests[i] = f.forKey(fmt.Sprintf("token:%d", (i+caller)%keyCount)).request(1)
		}
		f.Log.Decide(t.Context(), requests, results)
		mu.Lock()
		defer mu.Unlock()
		for i, r := range results {
			if r.Err != nil {
				t.Errorf("Decide: %v", r.Err)
			}
			if r.Allowed {
				allowed[(i+caller)%keyCount]++
			}
		}
	})
	for key, n := range allowed {
		if n != 9 {
			t.Errorf("key %d: %d requests were allowed, want 9", key, n)
		}
	}
}
