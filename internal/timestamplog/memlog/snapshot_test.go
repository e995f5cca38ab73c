package memlog_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/test/logtest"
)

func policyOf(t testing.TB, id int64, stack ...string) *rules.Policy {
	t.Helper()
	parsed, err := rules.ParseStack(stack)
	if err != nil {
		t.Fatal(err)
	}
	return &rules.Policy{ID: id, Version: 1, Generation: 1, Rules: parsed, Algorithm: algorithms.TimestampLog}
}

func ask(t testing.TB, log *memlog.Log, p *rules.Policy, key string, cost int) timestamplog.Result {
	t.Helper()
	results := make([]timestamplog.Result, 1)
	log.Decide(t.Context(), []timestamplog.Request{timestamplog.RequestOf(p, key, cost)}, results)
	if results[0].Err != nil {
		t.Fatal(results[0].Err)
	}
	return results[0]
}

// reserve makes a reservation for key a under an ID, with a MaxWait of one minute.
func reserve(t testing.TB, log *memlog.Log, p *rules.Policy, id string) timestamplog.Result {
	t.Helper()
	q := timestamplog.RequestOf(p, "a", 1)
	q.ID, q.MaxWait = id, time.Minute.Milliseconds()
	results := make([]timestamplog.Result, 1)
	log.Decide(t.Context(), []timestamplog.Request{q}, results)
	return results[0]
}

func timesOf(t testing.TB, log *memlog.Log, p *rules.Policy, key string) []int64 {
	t.Helper()
	times, _, err := log.Timestamps(t.Context(), timestamplog.LogIDOf(p, key), 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	return times
}

// filled returns a log with keys of several policies, ages and sizes.
func filled(t testing.TB, clock *logtest.Clock) (*memlog.Log, map[string]*rules.Policy) {
	t.Helper()
	log := memlog.New(memlog.Options{Now: clock.Now})
	policies := []*rules.Policy{
		policyOf(t, 1, "5/s", "100/31d"), policyOf(t, 2, "2000/m"), policyOf(t, -3, "1/ms", "800/d"),
	}
	keys := map[string]*rules.Policy{}
	for round := range 20 {
		for i := range 300 {
			key := fmt.Sprintf("token:\u00e9{%d}", i)
			keys[key] = policies[i%len(policies)]
			ask(t, log, keys[key], key, 1+(i+round)%5)
		}
		clock.Advance(7 * time.Second)
	}
	ask(t, log, policies[1], strings.Repeat("k", 512), 1000)
	keys[strings.Repeat("k", 512)] = policies[1]
	return log, keys
}

// fillCounters adds counters with reservations ahead, and IDs, to a log.
func fillCounters(t testing.TB, log *memlog.Log) {
	t.Helper()
	for i, algorithm := range algorithms.All() {
		p := policyOf(t, int64(10+i), "2/10s", "30/d")
		p.Algorithm = algorithm.Name
		for id := range 5 {
			if r := reserve(t, log, p, fmt.Sprint("id ", id)); !r.Allowed && algorithm.TakesReservations() {
				t.Fatalf("the reservation is refused: %+v", r)
			}
		}
	}
}

// While the policies are unknown every log must be kept, even if all take more than the bound.
// Later those that may be forgotten are.
func TestSnapshotBeyondTheBoundIsLoadedAndThenReduced(t *testing.T) {
	clock := logtest.NewClock()
	p := policyOf(t, 1, "1/s", "2/h")
	log := memlog.New(memlog.Options{Now: clock.Now})
	for i := range 2000 {
		ask(t, log, p, fmt.Sprint("token:", i), 1)
	}
	for range 2 {
		clock.Advance(time.Second)
		ask(t, log, p, "refused", 1)
	}
	clock.Advance(time.Second)
	q, results := timestamplog.RequestOf(p, "token:7", 1), make([]timestamplog.Result, 1)
	q.ID = "id"
	log.Decide(t.Context(), []timestamplog.Request{q}, results)
	var saved bytes.Buffer
	if err := log.Save(&saved); err != nil {
		t.Fatal(err)
	}
	isKnown := false
	restarted := memlog.New(memlog.Options{Now: clock.Now, MaxBytes: 64 << 10, Describe: func(timestamplog.LogID) ([]*rules.Policy, bool) {
		return []*rules.Policy{p}, !isKnown
	}})
	if err := restarted.Load(&saved); err != nil {
		t.Fatal(err)
	}
	if restarted.Len() != log.Len() || restarted.KnownIDs() != 1 {
		t.Errorf("%d logs and %d IDs were loaded, want %d and 1", restarted.Len(), restarted.KnownIDs(), log.Len())
	}
	restarted.Sweep()
	if stats := restarted.Memory(); stats.Forgotten != 0 {
		t.Errorf("before the policies are known: %+v", stats)
	}
	isKnown = true
	restarted.Sweep()
	if stats := restarted.Memory(); stats.Used > stats.Max || stats.Forgotten != int64(log.Len()-restarted.Len()) {
		t.Errorf("%+v, and %d of %d logs are left", stats, restarted.Len(), log.Len())
	}
	if ask(t, restarted, p, "refused", 1).Allowed {
		t.Error("a refused key was forgotten")
	}
}

func TestSavedLogsSurviveARestart(t *testing.T) {
	clock := logtest.NewClock()
	log, keys := filled(t, clock)
	path := filepath.Join(t.TempDir(), "logs.snapshot")
	for range 2 { // the second replaces the first
		if err := log.SaveFile(path); err != nil {
			t.Fatal(err)
		}
	}
	restarted := memlog.New(memlog.Options{Now: clock.Now})
	if err := restarted.LoadFile(path); err != nil {
		t.Fatal(err)
	}
	for key, p := range keys {
		if got, want := timesOf(t, restarted, p, key), timesOf(t, log, p, key); !slices.Equal(got, want) {
			t.Fatalf("%q holds %v after the restart, want %v", key, got, want)
		}
	}
	clock.Advance(time.Second)
	for key, p := range keys {
		got, want := ask(t, restarted, p, key, 3%p.Rules.LargestCost()+1), ask(t, log, p, key, 3%p.Rules.LargestCost()+1)
		if got.Allowed != want.Allowed || got.RetryAt != want.RetryAt || got.Boundary != want.Boundary {
			t.Fatalf("%q is answered %+v after the restart, want %+v", key, got, want)
		}
	}
	if left, err := filepath.Glob(path + ".*"); err != nil || len(left) > 0 {
		t.Errorf("there are other files than the snapshot: %v, %v", left, err)
	}
}

func TestLoadSkipsExpiredLogs(t *testing.T) {
	clock := logtest.NewClock()
	log := memlog.New(memlog.Options{Now: clock.Now})
	short, long := policyOf(t, 1, "5/s"), policyOf(t, 2, "5/h")
	ask(t, log, short, "a", 5)
	ask(t, log, long, "a", 5)
	var snapshot bytes.Buffer
	if err := log.Save(&snapshot); err != nil {
		t.Fatal(err)
	}
	clock.Advance(time.Second)
	restarted := memlog.New(memlog.Options{Now: clock.Now})
	if err := restarted.Load(&snapshot); err != nil {
		t.Fatal(err)
	}
	if n := restarted.Len(); n != 1 {
		t.Errorf("%d logs were loaded, want the one that has not expired", n)
	}
	if r := ask(t, restarted, long, "a", 1); r.Allowed {
		t.Error("the log that has not expired was forgotten")
	}
}

func TestSaveSkipsExpiredLogs(t *testing.T) {
	clock := logtest.NewClock()
	log := memlog.New(memlog.Options{Now: clock.Now})
	ask(t, log, policyOf(t, 1, "5/s"), strings.Repeat("k", 512), 5)
	clock.Advance(time.Second)
	var snapshot bytes.Buffer
	if err := log.Save(&snapshot); err != nil {
		t.Fatal(err)
	}
	if snapshot.Len() > 100 {
		t.Errorf("a snapshot of nothing has %d bytes", snapshot.Len())
	}
}

func TestLoadKeepsExistingLogs(t *testing.T) {
	clock := logtest.NewClock()
	p := policyOf(t, 1, "5/h")
	old := memlog.New(memlog.Options{Now: clock.Now})
	ask(t, old, p, "a", 1)
	var snapshot bytes.Buffer
	if err := old.Save(&snapshot); err != nil {
		t.Fatal(err)
	}
	clock.Advance(time.Second)
	log := memlog.New(memlog.Options{Now: clock.Now})
	ask(t, log, p, "a", 2)
	if err := log.Load(&snapshot); err != nil {
		t.Fatal(err)
	}
	if got := timesOf(t, log, p, "a"); !slices.Equal(got, []int64{clock.NowMS(), clock.NowMS()}) {
		t.Errorf("the log holds %v", got)
	}
}

func TestLoadFileAcceptsAMissingFile(t *testing.T) {
	if err := memlog.New(memlog.Options{}).LoadFile(filepath.Join(t.TempDir(), "none")); err != nil {
		t.Error(err)
	}
}

// restarted returns a log with the content of log's snapshot.
func restarted(t *testing.T, log *memlog.Log, clock *logtest.Clock) *memlog.Log {
	t.Helper()
	var snapshot bytes.Buffer
	if err := log.Save(&snapshot); err != nil {
		t.Fatal(err)
	}
	next := memlog.New(memlog.Options{Now: clock.Now})
	if err := next.Load(&snapshot); err != nil {
		t.Fatal(err)
	}
	return next
}

func TestReservationsAndIDsSurviveARestart(t *testing.T) {
	clock := logtest.NewClock()
	log := memlog.New(memlog.Options{Now: clock.Now})
	p := policyOf(t, 1, "1/10s")
	for i, id := range []string{"now", "a", "b"} {
		if r := reserve(t, log, p, id); r.ReservedAt != clock.NowMS()+int64(i)*10_000 {
			t.Fatalf("%s has %+v", id, r)
		}
	}
	next := restarted(t, log, clock)
	if r := reserve(t, next, p, "b"); !r.Replayed || r.ReservedAt != clock.NowMS()+20_000 {
		t.Errorf("after the restart b is answered %+v", r)
	}
	reservation := timestamplog.Reservation{LogID: timestamplog.LogIDOf(p, "a"), At: clock.NowMS() + 20_000, Cost: 1, ID: "b"}
	for _, want := range []bool{true, false} {
		if made, err := next.Cancel(t.Context(), reservation); made != want || err != nil {
			t.Errorf("Cancel() = %v, %v, want %v", made, err, want)
		}
	}
	// If reservations were not marked, these entries would look like a clock that stepped back.
	if got, want := timesOf(t, next, p, "a"), []int64{clock.NowMS() + 10_000, clock.NowMS()}; !slices.Equal(got, want) {
		t.Errorf("the log holds %v, want %v", got, want)
	}
	clock.Advance(time.Duration(timestamplog.IDLifetime) * time.Millisecond)
	if r := reserve(t, restarted(t, log, clock), p, "now"); r.Replayed {
		t.Errorf("an expired ID after a restart: got %+v, want it not replayed", r)
	}
}

func TestCountersSurviveARestart(t *testing.T) {
	for _, algorithm := range algorithms.All() {
		if algorithm.IsLog() {
			continue
		}
		t.Run(algorithm.Name, func(t *testing.T) {
			clock := logtest.NewClock()
			log := memlog.New(memlog.Options{Now: clock.Now})
			p := policyOf(t, 1, "2/10s", "7/m")
			p.Algorithm = algorithm.Name
			kept := 4
			if !algorithm.TakesReservations() {
				kept = 2
			}
			for i := range kept {
				reserve(t, log, p, fmt.Sprint("id ", i))
			}
			next := restarted(t, log, clock)
			if next.Len() != 1 {
				t.Fatalf("%d counters were loaded, want 1", next.Len())
			}
			for i := range kept {
				if r := reserve(t, next, p, fmt.Sprint("id ", i)); !r.Replayed {
					t.Fatalf("after the restart id %d is answered %+v", i, r)
				}
			}
			for i := range 40 {
				id := fmt.Sprint("next ", i)
				if got, want := reserve(t, next, p, id), reserve(t, log, p, id); got.ReservedAt != want.ReservedAt || got.RetryAt != want.RetryAt {
					t.Fatalf("after the restart the answer at %v is %+v, want %+v", clock.Now(), got, want)
				}
				clock.Advance(3 * time.Second)
			}
		})
	}
}

func TestSaveDuringConcurrentChecks(t *testing.T) {
	clock := logtest.NewClock()
	log, keys := filled(t, clock)
	p := policyOf(t, 9, "100000/h")
	done := make(chan struct{})
	go func() {
		defer close(done)
		results := make([]timestamplog.Result, 1)
		for i := range 20_000 {
			q := timestamplog.RequestOf(p, fmt.Sprintf("token:new%d", i%5000), 1)
			log.Decide(t.Context(), []timestamplog.Request{q}, results)
			if !results[0].Allowed {
				t.Errorf("%q: %+v", q.Key, results[0])
			}
			if _, err := log.Reset(t.Context(), q.LogID); err != nil {
				t.Error(err)
			}
		}
	}()
	for saving := true; saving; {
		select {
		case <-done:
			saving = false
		default:
		}
		var snapshot bytes.Buffer
		if err := log.Save(&snapshot); err != nil {
			t.Fatal(err)
		}
		restarted := memlog.New(memlog.Options{Now: clock.Now})
		if err := restarted.Load(&snapshot); err != nil {
			t.Fatal(err)
		}
		for key, p := range keys {
			if len(timesOf(t, log, p, key)) != len(timesOf(t, restarted, p, key)) {
				t.Fatalf("%q differs in the snapshot although it did not change", key)
			}
		}
	}
}

func TestSnapshotKeepsTheValuesOfDistinctRules(t *testing.T) {
	clock := logtest.NewClock()
	p := policyOf(t, 1, "3/h distinct path")
	charge := func(log *memlog.Log, value uint64) bool {
		q := timestamplog.RequestOf(p, "a", 1)
		q.Value = value
		results := make([]timestamplog.Result, 1)
		log.Decide(t.Context(), []timestamplog.Request{q}, results)
		return results[0].Allowed
	}
	before, after := memlog.New(memlog.Options{Now: clock.Now}), memlog.New(memlog.Options{Now: clock.Now})
	for value := range uint64(3) {
		charge(before, value+1)
		clock.Advance(time.Minute)
	}
	var saved bytes.Buffer
	if err := before.Save(&saved); err != nil {
		t.Fatal(err)
	}
	if err := after.Load(&saved); err != nil {
		t.Fatal(err)
	}
	if want := timesOf(t, before, p, "a"); !slices.Equal(timesOf(t, after, p, "a"), want) || len(want) != 3 {
		t.Errorf("got %v, want %v", timesOf(t, after, p, "a"), want)
	}
	if charge(after, 4) || !charge(after, 2) {
		t.Error("a new value is allowed, or a known one refused")
	}
	clock.Advance(2 * time.Hour)
	if after.Sweep(); after.Len() != 0 {
		t.Errorf("%d logs stay after their window", after.Len())
	}
}
