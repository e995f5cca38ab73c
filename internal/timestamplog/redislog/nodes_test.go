package redislog_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/testenv"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
)

// asked is a request of that cost and its answer.
type asked struct {
	cost int
	timestamplog.Result
}

// Two nodes share a Redis and go by its own clock while many callers ask about
// one key. Whatever the order, the answers' times show whether a limit was
// passed and whether each refusal had its reason.
func TestTwoNodesNeverPassALimitAndNeverRefuseNeedlessly(t *testing.T) {
	server := testenv.Redis(t)
	nodes := []*redislog.Log{open(t, server, redislog.Options{}), open(t, server, redislog.Options{})}
	p := policy(t, 1, "20/10ms", "50/100ms", "150/1s", "100000/1h")
	const callers, requests = 32, 150
	answered := make([][]asked, callers)
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(caller)))
			for range requests {
				cost := 1 + random.IntN(3)
				r := ask(t.Context(), nodes[caller%2], p, address, cost)
				if r.Err != nil {
					t.Error(r.Err)
				}
				answered[caller] = append(answered[caller], asked{cost, r})
			}
		})
	}
	group.Wait()
	all := slices.Concat(answered...)
	slices.SortFunc(all, func(a, b asked) int { return cmp.Compare(a.Now, b.Now) })
	allowed := 0
	for _, a := range all {
		checkWindows(t, all, a, p.Rules)
		if a.Allowed {
			allowed++
		}
	}
	if allowed == 0 || allowed == len(all) {
		t.Errorf("%d of %d were allowed: the limits were not tried", allowed, len(all))
	}
}

// checkWindows checks the windows that end at a's time. all is in order.
func checkWindows(t *testing.T, all []asked, a asked, stack rules.Stack) {
	t.Helper()
	for i, rule := range stack {
		used := costIn(all, a.Now-rule.WindowMS(), a.Now)
		if used > rule.Limit {
			t.Fatalf("%d were allowed in the %s before %d, want at most %d", used, rules.FormatWindow(rule.Window), a.Now, rule.Limit)
		}
		// Of those in the same millisecond some may have come later, so this
		// can only excuse a refusal.
		if !a.Allowed && a.Rule == i && used+a.cost <= rule.Limit {
			t.Fatalf("a cost of %d was refused at %d by %s although only %d were used", a.cost, a.Now, rule, used)
		}
	}
	if !a.Allowed && a.RetryAt != a.Boundary+stack[a.Rule].WindowMS() {
		t.Fatalf("%+v waits for something other than its boundary", a)
	}
}

// costIn returns the cost allowed after one instant up to another.
func costIn(all []asked, after, until int64) int {
	from, _ := slices.BinarySearchFunc(all, after+1, func(a asked, at int64) int { return cmp.Compare(a.Now, at) })
	used := 0
	for _, a := range all[from:] {
		if a.Now > until {
			break
		}
		if a.Allowed {
			used += a.cost
		}
	}
	return used
}
