package logtest

import (
	"fmt"
	"testing"

	"github.com/stint-dev/stint/internal/timestamplog"
)

func batches() []contract {
	return []contract{
		{"a batch is answered in order, each request on its own", batchInOrder},
		{"a batch mixes policies, costs and peeks", batchMixes},
		{"an uncharged request in a batch is answered as any other and is charged nothing", batchUncharged},
		{"a batch of a thousand requests is answered whole", largeBatch},
		{"an empty batch is no error", emptyBatch},
	}
}

// decideAll decides all requests in one call.
func (f *fixture) decideAll(requests []timestamplog.Request) []timestamplog.Result {
	f.t.Helper()
	results := make([]timestamplog.Result, len(requests))
	f.Log.Decide(f.t.Context(), requests, results)
	for i, r := range results {
		if r.Err != nil {
			f.t.Fatalf("request %d: %v", i, r.Err)
		}
	}
	return own(results)
}

func batchInOrder(t *testing.T, h Harness) {
	f := newFixture(t, h, "3/m")
	other := f.forKey("ip:203.0.113.8")
	results := f.decideAll([]timestamplog.Request{
		f.request(2), other.request(1), f.request(2), f.request(1), other.request(2), f.request(1), other.request(1),
	})
	for i, allowed := range []bool{true, true, false, true, true, false, false} {
		if allowed {
			f.wantAllowed(results[i])
		} else {
			f.wantLimited(results[i], "3/1m", minute)
		}
	}
	f.wantTimes(0, 0, 0)
	other.wantTimes(0, 0, 0)
}

func batchMixes(t *testing.T, h Harness) {
	f := newFixture(t, h, "2/s")
	open, shut := f.with(), f.with("0/m")
	peek, last := f.request(2), f.request(1)
	peek.Peek, last.Detail = true, true
	results := f.decideAll([]timestamplog.Request{
		peek, shut.request(1), f.request(1), open.request(1000), peek, last,
	})
	f.wantAllowed(results[0])
	shut.wantLimited(results[1], "0/1m", timestamplog.Never)
	f.wantAllowed(results[2])
	open.wantAllowed(results[3])
	f.wantLimited(results[4], "2/1s", second)
	f.wantAllowed(results[5])
	f.wantStates(results[5].States, state(0, second))
	for i, r := range results[:5] {
		if len(r.States) != 0 {
			t.Errorf("request %d has states although Detail is not set", i)
		}
	}
}

func batchUncharged(t *testing.T, h Harness) {
	f := newFixture(t, h, "2/m")
	uncharged := f.request(1)
	uncharged.Uncharged, uncharged.Detail = true, true
	results := f.decideAll([]timestamplog.Request{uncharged, f.request(1), uncharged, f.request(1), uncharged, f.request(1)})
	for i, left := range map[int]int{0: 2, 2: 1} {
		f.wantAllowed(results[i])
		f.wantStates(results[i].States, state(left, 0))
	}
	f.wantLimited(results[4], "2/1m", minute)
	f.wantLimited(results[5], "2/1m", minute)
	f.wantTimes(0, 0)
	uncharged.MaxWait = minute
	f.wantReservation(f.at(second).decide(uncharged), minute)
	f.wantTimes(0, 0)
}

func largeBatch(t *testing.T, h Harness) {
	f := newFixture(t, h, "2/m")
	var requests []timestamplog.Request
	for i := range 1000 {
		requests = append(requests, f.forKey(fmt.Sprintf("token:%d", i%400)).request(1))
	}
	for i, r := range f.decideAll(requests) {
		if i < 800 {
			f.wantAllowed(r)
		} else {
			f.wantLimited(r, "2/1m", minute)
		}
	}
}

func emptyBatch(t *testing.T, h Harness) {
	h.Log.Decide(t.Context(), nil, nil)
	h.Log.Decide(t.Context(), []timestamplog.Request{}, []timestamplog.Result{})
}
