package logtest

import (
	"testing"

	"github.com/stint-dev/stint/internal/timestamplog"
)

// step is one request of a script and its answer.
type step struct {
	at    int64 // milliseconds after the beginning
	cost  int   // 1 where it is 0
	peek  bool
	by    string // the rule that limits it; allowed where empty
	until int64  // when the wait ends, as at
	times int    // how often the step is taken, once where it is 0
}

const (
	second int64 = 1000
	minute       = 60 * second
	hour         = 60 * minute
	day          = 24 * hour
)

var scripts = []struct {
	name  string
	stack []string
	steps []step
}{
	{
		name:  "a limit of one frees exactly when its entry is as old as the window",
		stack: []string{"1/s"},
		steps: []step{
			{at: 0}, {at: 0, by: "1/1s", until: 1000}, {at: 999, by: "1/1s", until: 1000},
			{at: 1000}, {at: 1999, by: "1/1s", until: 2000}, {at: 2000},
		},
	},
	{
		name:  "no clock boundary matters: requests late in one second count in the next",
		stack: []string{"3/s"},
		steps: []step{
			{at: 998, times: 3}, {at: 999, by: "3/1s", until: 1998}, {at: 1000, by: "3/1s", until: 1998},
			{at: 1997, by: "3/1s", until: 1998}, {at: 1998, times: 3}, {at: 1998, by: "3/1s", until: 2998},
		},
	},
	{
		name:  "the shortest window and the longest are counted to the millisecond",
		stack: []string{"1/1ms", "2/31d"},
		steps: []step{
			{at: 0}, {at: 0, by: "1/1ms", until: 1}, {at: 5},
			{at: 31*day - 1, by: "2/31d", until: 31 * day}, {at: 31 * day},
			{at: 31*day + 4, by: "2/31d", until: 31*day + 5}, {at: 31*day + 5},
		},
	},
	{
		name:  "a refused request uses no quota of the rules that would have allowed it",
		stack: []string{"1/s", "5/m"},
		steps: []step{
			{at: 0}, {at: 1, by: "1/1s", until: 1000, times: 100}, {at: 1100}, {at: 2200}, {at: 3300}, {at: 4400},
			{at: 5500, by: "5/1m", until: 60_000, times: 100}, {at: 59_999, by: "5/1m", until: 60_000},
			{at: 60_000}, {at: 61_099, by: "5/1m", until: 61_100}, {at: 61_100},
		},
	},
	{
		name:  "the rule that waits longest is named, not the first that refuses",
		stack: []string{"1/s", "2/m"},
		steps: []step{
			{at: 0}, {at: 1200}, {at: 1500, by: "2/1m", until: 60_000},
			{at: 59_500, by: "2/1m", until: 60_000}, {at: 60_000}, {at: 60_500, by: "2/1m", until: 61_200},
		},
	},
	{
		name:  "the shorter window may be the one that waits longest",
		stack: []string{"1/10s", "2/11s"},
		steps: []step{{at: 0}, {at: 10_000}, {at: 10_500, by: "1/10s", until: 20_000}},
	},
	{
		name:  "a cost is logged whole or not at all",
		stack: []string{"10/m"},
		steps: []step{
			{at: 0, cost: 4}, {at: 1000, cost: 4}, {at: 2000, cost: 3, by: "10/1m", until: 60_000},
			{at: 2000, cost: 2}, {at: 3000, cost: 1, by: "10/1m", until: 60_000},
			{at: 3000, cost: 4, by: "10/1m", until: 60_000}, {at: 3000, cost: 5, by: "10/1m", until: 61_000},
			{at: 3000, cost: 8, by: "10/1m", until: 61_000}, {at: 3000, cost: 9, by: "10/1m", until: 62_000},
			{at: 60_000, cost: 5, by: "10/1m", until: 61_000}, {at: 60_000, cost: 4},
		},
	},
	{
		name:  "a cost as large as the smallest limit waits for an empty window",
		stack: []string{"3/s", "7/m"},
		steps: []step{
			{at: 0, cost: 1}, {at: 500, cost: 3, by: "3/1s", until: 1000}, {at: 1000, cost: 3},
			{at: 2000, cost: 3}, {at: 3000, cost: 3, by: "7/1m", until: 61_000},
			{at: 60_999, cost: 3, by: "7/1m", until: 61_000}, {at: 61_000, cost: 3},
		},
	},
	{
		name:  "the largest cost is allowed and charged in full",
		stack: []string{"1500/m"},
		steps: []step{
			{at: 0, cost: timestamplog.MaxCost}, {at: 1, cost: 501, by: "1500/1m", until: minute}, {at: 1, cost: 500},
			{at: 2, by: "1500/1m", until: minute}, {at: minute, cost: timestamplog.MaxCost},
			{at: minute, by: "1500/1m", until: minute + 1},
		},
	},
	{
		name:  "a peek answers and writes nothing",
		stack: []string{"2/s"},
		steps: []step{
			{at: 0, peek: true, times: 10}, {at: 0, cost: 2, peek: true, times: 10}, {at: 0}, {at: 0, peek: true, times: 10},
			{at: 0, cost: 2, peek: true, by: "2/1s", until: 1000}, {at: 500}, {at: 600, peek: true, by: "2/1s", until: 1000},
			{at: 1000, peek: true}, {at: 1000}, {at: 1000, peek: true, by: "2/1s", until: 1500},
		},
	},
	{
		name:  "a rule of 0 always limits and its RetryAt is Never",
		stack: []string{"0/s"},
		steps: []step{
			{at: 0, by: "0/1s", until: timestamplog.Never}, {at: day, by: "0/1s", until: timestamplog.Never},
			{at: day, cost: timestamplog.MaxCost, by: "0/1s", until: timestamplog.Never},
			{at: day, peek: true, by: "0/1s", until: timestamplog.Never},
		},
	},
	{
		name:  "a rule of 0 beside others limits everything",
		stack: []string{"5/s", "0/m", "100/d"},
		steps: []step{{at: 0, times: 3, by: "0/1m", until: timestamplog.Never}},
	},
	{
		name:  "an empty stack allows everything",
		stack: nil,
		steps: []step{{at: 0, times: 100}, {at: 0, cost: timestamplog.MaxCost, times: 10}, {at: 0, peek: true}},
	},
	{
		name:  "waiting until RetryAt always succeeds under the default stack",
		stack: []string{"1/s", "20/m", "200/h", "800/d"},
		steps: append(pace(0, 20), step{at: 20 * second, by: "20/1m", until: minute},
			step{at: minute - 1, by: "20/1m", until: minute}, step{at: minute}),
	},
}

// pace is n allowed requests, one a second from the instant at.
func pace(at int64, n int) []step {
	steps := make([]step, n)
	for i := range steps {
		steps[i].at = at + int64(i)*second
	}
	return steps
}

func scripted() []contract {
	var all []contract
	for _, script := range scripts {
		all = append(all, contract{script.name, func(t *testing.T, h Harness) {
			f := newFixture(t, h, script.stack...)
			for _, s := range script.steps {
				for range max(1, s.times) {
					f.take(s)
				}
			}
		}})
	}
	return all
}

func (f *fixture) take(s step) {
	f.t.Helper()
	q := f.request(max(1, s.cost))
	q.Peek = s.peek
	r := f.at(s.at).decide(q)
	if s.by == "" {
		f.wantAllowed(r)
	} else {
		f.wantLimited(r, s.by, s.until)
	}
	if len(r.States) != 0 {
		f.t.Fatalf("Decide without Detail: got %d rule states, want none", len(r.States))
	}
}
