package offences_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/recorder"
	sqloffences "github.com/stint-dev/stint/internal/sqlstore/offences"
	"github.com/stint-dev/stint/test/keytest"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/storetest"
)

// onBothCounted runs a test on a database of each kind that counts its
// statements.
func onBothCounted(t *testing.T, test func(t *testing.T, f *storetest.Fixture, statements func() int64)) {
	t.Run("sqlite", func(t *testing.T) {
		f, statements := storetest.OpenCounted(t)
		test(t, f, statements)
	})
	t.Run("postgres", func(t *testing.T) {
		server := distant(t, servers.Postgres(t).URL, 0)
		test(t, storetest.Open(t, server.url), server.statements.Load)
	})
}

func TestFlushUsesSameNumberOfStatementsForAnyBatchSize(t *testing.T) {
	onBothCounted(t, func(t *testing.T, f *storetest.Fixture, statements func() int64) {
		flush := func(set string, n int, quiet bool) int64 {
			t.Helper()
			b := storetest.CrossingBatch(set, n, f.Clock.Now())
			want := n
			if quiet { // every other key stays below the threshold
				want = 0
				for i := range b.Offences {
					if b.Offences[i].Count = int64(1 + i%2*9); i%2 == 1 {
						want++
					}
				}
			}
			before := statements()
			events, err := f.Offences.Flush(t.Context(), b, storetest.EvaluationAt(f))
			if err != nil || len(events) != want {
				t.Fatalf("%d keys were blocked, want %d; %v", len(events), want, err)
			}
			return statements() - before
		}
		same := func(when string, quiet bool) {
			t.Helper()
			few, many := flush("few"+when, 10, quiet), flush("many"+when, 1_000, quiet)
			if few != many || few == 0 || few > 26 {
				t.Errorf("%q: 10 keys take %d statements and 1,000 keys %d, want the same number up to 26", when, few, many)
			}
		}
		same("", false)
		// Again, now that each has a state and a block that has ended.
		f.Clock.Advance(11 * time.Minute)
		same("", false)
		same(" some below the threshold", true)
		entries, err := f.Audit.FindRecords(t.Context(), audit.Filter{Action: "block.add", Limit: 1})
		if err != nil || len(entries.Records) != 1 || entries.Records[0].Actor != audit.SystemActor("escalation") || entries.Records[0].After == nil {
			t.Errorf("got the audit records %+v, %v", entries, err)
		}
		storetest.WantIntactChain(t, f, audit.Link{})
	})
}

func TestEscalationSkipsKeysThatAreAlreadyBlocked(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", storetest.Escalation())
		if _, err := f.Entries.Add(t.Context(), storetest.Operator, blocks.Fail, blocks.Entry{Kind: blocks.Block, Pattern: keytest.Pattern(t, "k:taken")}); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{"ip:10.0.0.0/8", "token:test_*"} {
			if _, err := f.Entries.Add(t.Context(), storetest.Operator, blocks.Fail, blocks.Entry{Kind: blocks.Block, Pattern: keytest.Pattern(t, p)}); err != nil {
				t.Fatal(err)
			}
		}
		for _, k := range []string{"k:taken", "k:free", "ip:10.1.2.3", "ip:11.1.2.3", "token:test_1", "token:live_1"} {
			n.limited(k, 10)
		}
		n.flush()
		made := map[string]bool{}
		for _, b := range automaticBlocks(t, f.Store) {
			made[b.Pattern.String()] = true
		}
		if len(made) != 3 || !made["k:free"] || !made["ip:11.1.2.3"] || !made["token:live_1"] {
			t.Errorf("blocked %v, want k:free, ip:11.1.2.3 and token:live_1", made)
		}
	})
}

// TestFlusherBlocksManyKeysOnDistantDatabase tests a case that once did not end: keys
// that cross the threshold by the thousand within a second, and a slow connection to the database.
func TestFlusherBlocksManyKeysOnDistantDatabase(t *testing.T) {
	server := distant(t, servers.Postgres(t).URL, time.Millisecond)
	f := storetest.Open(t, server.url)
	const attackers, innocents = 1_500, 50
	n := newCounting(t, f.Offences, f.Clock, "a", storetest.Escalation())
	for i := range attackers {
		n.limited(fmt.Sprintf("ip:10.0.%d.%d", i>>8, i&255), 10)
	}
	for i := range innocents {
		n.limited(fmt.Sprintf("token:%d", i), 1)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() { n.Run(ctx) })
	defer running.Wait()
	defer cancel()
	for n.Stats().Waiting > 0 || n.Stats().Flushed == 0 {
		if ctx.Err() != nil {
			t.Fatalf("the offences were not written within five minutes: %+v", n.Stats())
		}
		time.Sleep(10 * time.Millisecond)
	}
	if got, err := f.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block, State: "all", Source: blocks.Automatic, Limit: 1}); err != nil || got.Total != attackers {
		t.Errorf("%d keys were blocked, want %d; %v", got.Total, attackers, err)
	}
	if r, err := f.Offences.Rank(t.Context(), offences.Query{From: f.Clock.Now().Add(-time.Hour), To: f.Clock.Now().Add(time.Hour)}); err != nil || r.Keys != attackers+innocents || r.Offences != 10*attackers+innocents {
		t.Errorf("%d offences of %d keys, %v", r.Offences, r.Keys, err)
	}
	if stats := n.Stats(); stats.Poison != 0 || stats.Aggregated != 0 {
		t.Errorf("%+v", stats)
	}
}

func TestAbandonedBatchIsNeverWritten(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		abandon := func(id string) bool {
			t.Helper()
			written, err := f.Offences.Abandon(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			return written
		}
		flush := func(id string) int {
			t.Helper()
			b := storetest.CrossingBatch(id, 1, f.Clock.Now())
			b.ID = id
			events, err := f.Offences.Flush(t.Context(), b, storetest.EvaluationAt(f))
			if err != nil {
				t.Fatal(err)
			}
			return len(events)
		}
		if flush("written") != 1 {
			t.Error("the first batch added no block")
		}
		for range 2 { // asking again changes nothing
			if !abandon("written") {
				t.Error("Abandon of a written batch returned false")
			}
			if abandon("lost") {
				t.Error("Abandon of an unknown batch returned true")
			}
		}
		if flush("lost") != 0 {
			t.Error("an abandoned batch was written")
		}
	})
}

// BenchmarkManyKeysCrossAtOnce measures how long it takes until all of 20,000
// keys that cross within a second, counted by one node, are blocked by a
// Postgres 5 ms away.
func BenchmarkManyKeysCrossAtOnce(b *testing.B) {
	for _, c := range []struct {
		keys  int
		delay time.Duration
	}{{1_500, time.Millisecond}, {20_000, 5 * time.Millisecond}} {
		b.Run(fmt.Sprintf("%d keys, %s away", c.keys, c.delay), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				server := distant(b, servers.Postgres(b).URL, c.delay)
				f := storetest.Open(b, server.url)
				n := newCounting(b, f.Offences, f.Clock, "a", storetest.Escalation())
				n.recorder = recorder.NewRecorder(recorder.Options{Secret: func() []byte { return offenceSecret }, Node: "a", MaxKeys: 1 << 17, MaxRows: 1 << 17})
				n.Recorder, n.Log = n.recorder, slog.Default()
				for i := range c.keys {
					n.limited(fmt.Sprintf("ip:10.%d.%d.%d", i>>16, i>>8&255, i&255), 10)
				}
				before := server.statements.Load()
				b.StartTimer()
				if err := n.Flush(b.Context()); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				b.ReportMetric(float64(server.statements.Load()-before), "statements")
				if got, err := f.Entries.Find(b.Context(), blocks.Filter{Kind: blocks.Block, State: "all", Source: blocks.Automatic, Limit: 1}); err != nil || got.Total != c.keys {
					b.Fatalf("%d of %d were blocked, %v; %+v", got.Total, c.keys, err, n.Stats())
				}
				b.StartTimer()
			}
		})
	}
}

// A list may have hundreds of thousands of blocks, and a key is selected by as many patterns as
// it has bytes.
func TestBlockEndsQueryUsesPatternIndex(t *testing.T) {
	f := storetest.OpenSQLite(t)
	plan, err := sqloffences.PlanOfBlockEnds(f.Offences, t.Context())
	if text := strings.Join(plan, "\n"); err != nil || !strings.Contains(text, "SEARCH b USING INDEX entries_pattern (pattern=? AND kind=?)") {
		t.Errorf("the plan is\n%s\n%v", text, err)
	}
}
