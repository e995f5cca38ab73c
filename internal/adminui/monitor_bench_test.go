package adminui_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/axiomhq/hyperloglog"
	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/stint-dev/stint/internal/adminui"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/bots"
	"github.com/stint-dev/stint/internal/breakdown"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/test/storetest"
)

// BenchmarkWatch shows the pages about what happened among a million offences
// of the last day by 20,000 keys, in 200,000 rows, and 100,000 blocks, over
// HTTP, from each database; the last ones also with 2,000 rows of what was requested in each minute
// of an hour. kB is what a browser receives of a page, compressed. Other work
// on the machine disturbs least-ms, the quickest answer, less than the average, and cpu-ms
// least: the processor time of node and browser, without Postgres.
func BenchmarkWatch(b *testing.B) {
	b.Run("SQLite", func(b *testing.B) { benchmarkWatch(b, newNode(b, botsOfTables), func() {}) })
	b.Run("Postgres", func(b *testing.B) {
		database := storetest.Migrated.Postgres(b)
		benchmarkWatch(b, newNodeOn(b, database.URL, botsOfTables), func() { vacuum(b, database.URL) })
	})
}

// vacuum does the work of Postgres's autovacuum.
func vacuum(b *testing.B, url string) {
	connection, err := pgx.Connect(context.Background(), url)
	must(b, err)
	_, err = connection.Exec(context.Background(), "VACUUM ANALYZE")
	must(b, err)
	must(b, connection.Close(context.Background()))
}

func benchmarkWatch(b *testing.B, n *node, settle func()) {
	ctx := context.Background()
	_, err := n.store.Entries.Import(ctx, audit.SystemActor("test"), manyBlocks(b, 100_000, n.clock.Now().Add(time.Hour)), blocks.Keep, nil)
	must(b, err)
	n.manyOffences(b, 24*time.Hour, 200_000, 20_000)
	settle()
	must(b, n.store.Offences.WarmCache(ctx, n.clock.Now())) // as a node does beside its checks
	v := n.as(b, "olu")
	for _, page := range []struct{ name, path string }{
		{"overview, 1 h", "/"}, {"overview, 24 h", "/?last=24h"}, {"overview, 7 d", "/?last=7d"},
		{"offenders, 1 h", "/offenders"}, {"offenders, 24 h", "/offenders?last=24h"},
		{"offenders, 24 h, by rule", "/offenders?last=24h&rule=20/1m"}, {"offenders, 24 h, newest", "/offenders?last=24h&sort=last"},
		{"offenders, 24 h, search", "/offenders?last=24h&search=172.16.1"},
		{"key", "/key?key=ip:172.16.0.0"}, {"live", "/live"}, {"proposals", "/proposals"}, {"offenders, open", "/offenders?state=open"}, {"blocks", "/blocks"},
		{"policy", "/policies/default"}, {"use of a policy", "/policies/default/usage"}, {"today so far", "/reports/today"}, {"audit", "/audit"},
		{"traffic", "/traffic"}, {"traffic, 24 h, filtered", "/traffic?last=24h&not=method%3DPOST"}, {"bots", "/bots"},
	} {
		if page.path == "/traffic" { // the pages before are measured without it
			n.manyRequested(b, 60, 2000)
		}
		b.Run(page.name, func(b *testing.B) {
			size, least, cpu := 0, time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
			for b.Loop() {
				began, used := time.Now(), processorTime(b)
				size = len(v.do(http.MethodGet, page.path, nil, http.Header{"Accept-Encoding": {"gzip"}}).is(http.StatusOK).body)
				least, cpu = min(least, time.Since(began)), min(cpu, processorTime(b)-used)
			}
			b.ReportMetric(float64(size)/1000, "kB")
			b.ReportMetric(float64(least.Microseconds())/1000, "least-ms")
			b.ReportMetric(float64(cpu.Microseconds())/1000, "cpu-ms")
		})
	}
}

// botsOfTables shows the bots of what was requested.
func botsOfTables(d *adminui.Deps) { d.Bots.Store = d.Detection.Store }

// manyRequested stores what was requested in the last minutes, in that many rows each, half of it
// by bots.
func (n *node) manyRequested(t testing.TB, minutes, rows int) {
	t.Helper()
	agents := bots.Agents()
	bot, _ := breakdown.Find("bot")
	for minute := range minutes {
		table := &breakdown.Table{}
		for i := range rows {
			values := breakdown.Values{fmt.Sprintf("/section%d/page", i), fmt.Sprintf("agent%d", i%97), "www.example.com", []string{"GET", "POST"}[i%3&1]}
			if i%2 == 0 {
				values[bot] = agents[i%len(agents)].Name()
			}
			table.Row(values).Counts = breakdown.Counts{Allowed: int64(20 + i%7), Limited: int64(i % 5)}
		}
		at := n.clock.Now().Add(-time.Duration(minute) * time.Minute)
		_, err := n.store.Offences.Flush(context.Background(), &offences.Batch{ID: uuid.NewString(), Node: "other", Breakdowns: []breakdown.Chunk{{Minute: offences.MinuteOf(at.UnixMilli()), Data: table.Encode()}}}, offences.Evaluation{Now: n.clock.Now()})
		must(t, err)
	}
}

// processorTime returns what this process has used.
func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// manyOffences writes rows of seven offences each, evenly over a time range that ends
// now; the first keys have far more of them.
func (n *node) manyOffences(t testing.TB, span time.Duration, rows, keys int) {
	t.Helper()
	maker := offences.NewRefusalIDMaker(n.catalog.Settings().Secret)
	minutes := int(span / time.Minute)
	first := n.clock.Now().Add(-span).Truncate(time.Minute)
	random := uint64(1)
	for minute := range minutes {
		at := first.Add(time.Duration(minute) * time.Minute).UnixMilli()
		b := &offences.Batch{ID: uuid.NewString(), Node: "a"}
		totals := offences.Totals{Minute: at, Policy: 1}
		seen := map[int]bool{}
		for range rows / minutes {
			random = random*6364136223846793005 + 1442695040888963407
			ratio := float64(random>>40) / (1 << 24)
			k := int(ratio * ratio * ratio * float64(keys))
			if seen[k] {
				continue
			}
			seen[k] = true
			key := fmt.Sprintf("ip:172.16.%d.%d", k>>8, k&255)
			rule := []string{"1/1s", "20/1m", "200/1h"}[k%3]
			b.Offences = append(b.Offences, offences.Offence{
				Minute: at, Policy: 1, Key: key, MAC: maker.MAC(1, key), Kind: offences.Limited, RefusedBy: rule, Count: 7,
				First: offences.Refusal{At: at, RetryAt: at + 1000}, Last: offences.Refusal{At: at + 59_000, RetryAt: at + 60_000},
			})
			b.Keys = append(b.Keys, offences.KeyTraffic{Minute: at, Policy: 1, Key: key, Allowed: 20, Refused: 7, Cost: 20})
			totals.Allowed, totals.Limited = totals.Allowed+20, totals.Limited+7
		}
		b.Totals = []offences.Totals{totals}
		b.Distinct = []offences.DistinctKeys{{Minute: at, Policy: 1, Node: "a", Sketch: sketchOf(t, seen)}}
		_, err := n.store.Offences.Flush(context.Background(), b, offences.Evaluation{Now: time.UnixMilli(at)})
		must(t, err)
	}
	_, err := n.store.Offences.RollUp(context.Background(), n.clock.Now())
	must(t, err)
}

// sketchOf returns the sketch of the number of keys, as nodes store it.
func sketchOf(t testing.TB, keys map[int]bool) []byte {
	t.Helper()
	sketch, err := hyperloglog.NewSketch(12, false)
	must(t, err)
	for k := range keys {
		sketch.InsertHash(xxhash.Sum64String(fmt.Sprint(k)))
	}
	data, err := sketch.MarshalBinary()
	must(t, err)
	return data
}
