package memlog_test

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/test/logtest"
)

// The answers to settlements are kept in a row, of which the oldest are dropped while others are added.
func TestEachOfManySettlementsIsRepeatedForAsLongAsIDsLive(t *testing.T) {
	clock := logtest.NewClock()
	log := memlog.New(memlog.Options{Now: clock.Now})
	p := policyOf(t, 1, "1000000/1d")
	p.Algorithm = algorithms.AmountLog
	const holds = 300
	step := 4 * timestamplog.IDLifetime / holds // a quarter of them is known at a time
	settle := func(i int) timestamplog.Settled {
		q := timestamplog.RequestOf(p, "key", 1000)
		q.Value = uint64(algorithms.HoldTag(uint64(i)*0x9e3779b97f4a7c15, true))
		s, err := log.Settle(t.Context(), timestamplog.Settlement{Request: q, Used: int64(i)})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for i := range holds {
		q := timestamplog.RequestOf(p, "key", 1000)
		q.Hold, q.Value = time.Hour.Milliseconds(), uint64(algorithms.HoldTag(uint64(i)*0x9e3779b97f4a7c15, true))
		results := make([]timestamplog.Result, 1)
		if log.Decide(t.Context(), []timestamplog.Request{q}, results); !results[0].Allowed {
			t.Fatalf("hold %d: %+v", i, results[0])
		}
		if got := settle(i); got.State != algorithms.HoldSettled || got.Repeated {
			t.Fatalf("settlement %d: %+v", i, got)
		}
		clock.Advance(time.Duration(step) * time.Millisecond)
		for before := range i + 1 {
			got, isKnown := settle(before), int64(i+1-before)*step < timestamplog.IDLifetime
			if isKnown && (got.State != algorithms.HoldSettled || !got.Repeated || got.Used != int64(before)) || !isKnown && got.State != algorithms.HoldUnknown {
				t.Fatalf("after settlement %d the repeated settlement %d: %+v; known: %v", i, before, got, isKnown)
			}
		}
	}
}
