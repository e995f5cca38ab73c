package recorder

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/test/keytest"
)

var (
	noon         = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	secret       = []byte("0123456789abcdef0123456789abcdef")
	policy       = &rules.Policy{ID: 7, Name: "default", Mode: rules.Enforce, Rules: stack("1/1s", "20/1m")}
	shadowPolicy = &rules.Policy{ID: 8, Name: "trial", Mode: rules.Shadow, Rules: stack("5/1m")}
)

func stack(texts ...string) rules.Stack {
	s, err := rules.ParseStack(texts)
	if err != nil {
		panic(err)
	}
	return s
}

var key = keytest.Key

func testRecorder(o Options) *Recorder {
	o.Secret = func() []byte { return secret }
	o.Node = "a"
	return NewRecorder(o)
}

func limited(k keys.Key, at time.Time, rule int) *gate.Decision {
	return &gate.Decision{Check: gate.Check{Key: k, Cost: 1}, Outcome: gate.Limited, Policy: policy,
		Answer: gate.Answer{At: at, Rule: rule, Boundary: at.Add(-time.Second), RetryAt: at.Add(time.Second)}}
}

func allowed(k keys.Key, at time.Time) *gate.Decision {
	return &gate.Decision{Check: gate.Check{Key: k, Cost: 2}, Outcome: gate.Allowed, Policy: policy, Answer: gate.Answer{At: at, Rule: -1}}
}

// drained returns everything that r holds as a batch.
func drained(r *Recorder) *offences.Batch {
	g := newPendingBatch(1 << 30)
	r.drain(g, 1<<62)
	return g.freeze("id", "a", offences.NewRefusalIDMaker(secret))
}

func TestRefusalsAreCountedByMinutePolicyKeyAndRule(t *testing.T) {
	r := testRecorder(Options{})
	k := key(t, "ip:203.0.113.7")
	first := limited(k, noon.Add(3*time.Second), 1)
	first.Check.Source, first.Check.Meta = "edge-1", map[string]string{"path": "/search\x00\xff", "agent": "x"}
	r.Record(first)
	middle := limited(k, noon.Add(4*time.Second), 1)
	middle.Check.Source = "edge-1"
	r.Record(middle)
	last := limited(k, noon.Add(59*time.Second), 1)
	last.Check.Source = "edge-1"
	last.Check.Meta = map[string]string{"path": "/last"}
	r.Record(last)
	r.Record(limited(k, noon.Add(5*time.Second), 0))
	r.Record(limited(k, noon.Add(61*time.Second), 1))
	b := drained(r)
	if len(b.Offences) != 3 {
		t.Fatalf("%d rows, want one for each rule of 12:00 and one of 12:01: %+v", len(b.Offences), b.Offences)
	}
	for _, o := range b.Offences {
		if o.RefusedBy != "20/1m" || o.Minute != noon.UnixMilli() {
			continue
		}
		if o.Count != 3 || o.Overcount != 0 || o.First.At != first.At.UnixMilli() || o.Last.At != last.At.UnixMilli() {
			t.Errorf("got %+v", o)
		}
		if o.First.Source != "edge-1" || o.First.Meta["path"] != "/search\uFFFD\uFFFD" || o.First.Meta["agent"] != "x" || o.Last.Meta["path"] != "/last" {
			t.Errorf("source and meta are %+v and %+v", o.First, o.Last)
		}
		if o.First.Boundary != first.Boundary.UnixMilli() || o.Last.RetryAt != last.RetryAt.UnixMilli() {
			t.Errorf("boundary and retry_at are %+v and %+v", o.First, o.Last)
		}
		if want := offences.NewRefusalIDMaker(secret).MAC(7, "ip:203.0.113.7"); o.MAC != want {
			t.Error("the MAC is not that of the refusal id")
		}
	}
}

func TestSourcesAreCountedSeparatelyWithinBounds(t *testing.T) {
	r := testRecorder(Options{})
	const times = 10_000
	for i := range times {
		d := limited(key(t, "k:x"), noon, 1)
		d.Check.Source = "request-" + strconv.Itoa(i)
		r.Record(d)
	}
	d := limited(key(t, "k:y"), noon, 1)
	d.Check.Source = strings.Repeat("s", 2*maxSource)
	r.Record(d)
	b := drained(r)
	counts := map[string]int64{}
	for _, o := range b.Offences {
		counts[o.Key] += o.Count
		if o.Key == "k:y" && o.Source != strings.Repeat("s", maxSource) {
			t.Errorf("a long source is kept as %q", o.Source)
		}
		if o.Source != o.First.Source || o.Source != o.Last.Source {
			t.Errorf("got %+v", o)
		}
	}
	if len(b.Offences) != maxSources+2 || counts["k:x"] != times || counts["k:y"] != 1 {
		t.Errorf("%d rows with %v", len(b.Offences), counts)
	}
}

func TestBlockedAndShadowRefusalsHaveTheirOwnRows(t *testing.T) {
	r := testRecorder(Options{})
	k := key(t, "token:abc")
	r.Record(&gate.Decision{Check: gate.Check{Key: k, Cost: 1}, Outcome: gate.Blocked, Policy: policy,
		Block: &blocks.Entry{Kind: blocks.Block, ID: "b1"}, Answer: gate.Answer{At: noon, Rule: -1}})
	d := allowed(k, noon)
	d.Shadow = &gate.Shadow{Outcome: gate.Limited, Policy: shadowPolicy, Answer: gate.Answer{At: noon, Rule: 0}}
	r.Record(d)
	b := drained(r)
	got := map[offences.Kind]string{}
	for _, o := range b.Offences {
		got[o.Kind] = fmt.Sprint(o.Policy, " ", o.RefusedBy, " ", o.Count)
	}
	if got[offences.Blocked] != "7 b1 1" || got[offences.Shadow] != "8 5/1m 1" || len(got) != 2 {
		t.Errorf("got %v", got)
	}
	for _, c := range b.Totals {
		switch {
		case c.Policy == 7 && (c.Blocked != 1 || c.Allowed != 1 || c.CostAllowed != 2):
			t.Errorf("the totals of the enforcing policy are %+v", c)
		case c.Policy == 8 && (c.ShadowLimited != 1 || c.Checks() != 0):
			t.Errorf("the totals of the shadow policy are %+v", c)
		}
	}
}

// sums returns the numbers of all offences and of those in `other` rows, and the largest
// Overcount of an `other` row.
func sums(b *offences.Batch) (all, other, bound int64) {
	for _, o := range b.Offences {
		all += o.Count
		if o.Key == "" {
			other += o.Count
			bound = max(bound, o.Overcount)
		}
	}
	return all, other, bound
}

func TestCountsAreBoundedFromBothSides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := testRecorder(Options{MaxKeys: shardCount * rapid.IntRange(2, 8).Draw(t, "memory"), MaxRows: shardCount * rapid.IntRange(1, 4).Draw(t, "rows")})
		truth := map[string]int64{}
		certain, over := map[string]int64{}, map[string]int64{}
		var total, all, bound int64
		n := rapid.IntRange(0, 3000).Draw(t, "refusals")
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		distinct := rapid.IntRange(1, 2000).Draw(t, "distinct keys")
		collect := func(b *offences.Batch) {
			for _, o := range b.Offences {
				all += o.Count
				if o.Key == "" {
					bound += o.Overcount
				} else {
					certain[o.Key] += o.Count
					over[o.Key] += o.Overcount
				}
			}
		}
		for range n {
			name := "k:" + strconv.Itoa(int(float64(distinct)*random.Float64()*random.Float64()))
			k, err := keys.Parser{}.Key(name)
			if err != nil {
				t.Fatal(err)
			}
			r.Record(limited(k, noon, 1))
			truth[name]++
			total++
			if random.IntN(500) == 0 {
				g := newPendingBatch(1 << 30)
				r.drain(g, noon.UnixMilli()) // the minute is still open
				collect(g.freeze("", "", offences.NewRefusalIDMaker(secret)))
			}
		}
		collect(drained(r))
		if all != total {
			t.Fatalf("the rows add up to %d refusals, want %d", all, total)
		}
		for name, want := range truth {
			if certain[name] > want {
				t.Fatalf("%s: the lower bound is %d, and %d were recorded", name, certain[name], want)
			}
			if upper := max(certain[name]+over[name], bound); upper < want {
				t.Fatalf("%s: the upper bound is %d, and %d were recorded", name, upper, want)
			}
		}
	})
}

func TestFloodOfKeysUsesBoundedMemoryAndHidesNoHeavyKey(t *testing.T) {
	flood := testFlood(t)
	r := testRecorder(Options{})
	heavy := key(t, "ip:192.0.2.1")
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	g := newPendingBatch(50_000)
	for i := range flood {
		r.Record(limited(key(t, "k:"+strconv.Itoa(i)), noon, 1))
		if i%100 == 0 {
			r.Record(limited(heavy, noon, 1))
		}
		if i%(flood/10) == 0 {
			r.drain(g, noon.UnixMilli())
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 120<<20 {
		t.Errorf("%d keys take %d MB, want at most 120", flood, grown>>20)
	}
	r.drain(g, 1<<62)
	b := g.freeze("", "", offences.NewRefusalIDMaker(secret))
	want := int64(flood + (flood+99)/100)
	all, other, bound := sums(b)
	if all != want || b.Totals[0].Limited != want {
		t.Errorf("rows add up to %d and totals to %d of %d", all, b.Totals[0].Limited, want)
	}
	for _, o := range b.Offences {
		if o.Key == "ip:192.0.2.1" {
			truth := int64((flood + 99) / 100)
			if o.Count != truth {
				t.Errorf("the heavy key has a count of %d, want %d (overcount %d, other %d, bound %d)", o.Count, truth, o.Overcount, other, bound)
			}
		}
	}
	if rows := len(b.Offences); rows > 40_000 {
		t.Errorf("%d rows for one minute", rows)
	}
	estimate, err := offences.CountDistinct([][]byte{b.Distinct[0].Sketch})
	if err != nil || estimate < int64(float64(flood)*0.92) || estimate > int64(float64(flood)*1.08) {
		t.Errorf("%d distinct keys were estimated as %d, %v", flood, estimate, err)
	}
}

func TestTotalsAreExactUnderConcurrentUse(t *testing.T) {
	r := testRecorder(Options{MaxKeys: 640})
	g := newPendingBatch(1 << 30)
	var all sync.WaitGroup
	stop := make(chan struct{})
	var drainer sync.WaitGroup
	drainer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				r.drain(g, noon.UnixMilli())
			}
		}
	})
	for worker := range 4 {
		all.Go(func() {
			for i := range 5000 {
				k, _ := keys.Parser{}.Key("k:" + strconv.Itoa((i*worker)%3000))
				if i%2 == 0 {
					r.Record(allowed(k, noon))
				} else {
					r.Record(limited(k, noon, i/2%2))
				}
			}
		})
	}
	all.Wait()
	close(stop)
	drainer.Wait()
	r.drain(g, 1<<62)
	b := g.freeze("", "", offences.NewRefusalIDMaker(secret))
	if len(b.Totals) != 1 || b.Totals[0].Allowed != 10_000 || b.Totals[0].Limited != 10_000 || b.Totals[0].CostAllowed != 20_000 {
		t.Errorf("totals are %+v", b.Totals)
	}
	if n, _, _ := sums(b); n != 10_000 {
		t.Errorf("rows add up to %d", n)
	}
}

func TestUndecidedChecksAreNotTrafficOfTheirKeys(t *testing.T) {
	r := testRecorder(Options{})
	k := key(t, "ip:203.0.113.7")
	undecided := allowed(k, noon)
	undecided.Outcome = gate.Unavailable
	r.Record(undecided)
	if b := drained(r); len(b.Keys) > 0 || len(b.Totals) != 1 || b.Totals[0].Unavailable != 1 || b.Totals[0].Untracked != 0 {
		t.Errorf("keys %+v, totals %+v", b.Keys, b.Totals)
	}
	r.Record(undecided)
	r.Record(limited(k, noon, 1))
	r.Record(allowed(k, noon))
	if b := drained(r); len(b.Keys) != 1 || b.Keys[0].Allowed != 1 || b.Keys[0].Cost != 2 || b.Keys[0].Refused != 1 {
		t.Errorf("keys %+v", b.Keys)
	}
}

// TestShadowPolicyThatDeniesInAnOutageWouldHaveRefused: the check is counted as refused, but the
// key did nothing that an escalation should see.
func TestShadowPolicyThatDeniesInAnOutageWouldHaveRefused(t *testing.T) {
	r := testRecorder(Options{})
	d := allowed(key(t, "ip:203.0.113.7"), noon)
	d.Shadow = &gate.Shadow{Outcome: gate.Unavailable, Policy: shadowPolicy, Answer: gate.Answer{At: noon, Rule: -1}}
	r.Record(d)
	b := drained(r)
	for _, c := range b.Totals {
		if c.Policy == 8 && (c.ShadowLimited != 1 || c.ShadowAllowed != 0 || c.Checks() != 0) {
			t.Errorf("the totals of the shadow policy are %+v", c.Counts)
		}
	}
	if len(b.Totals) != 2 || len(b.Offences) > 0 {
		t.Errorf("totals %+v, offences %+v", b.Totals, b.Offences)
	}
}

func TestAllowedChecksAreInRowsOrUntracked(t *testing.T) {
	r := testRecorder(Options{TrafficKeys: 32, MaxKeys: 640})
	for i := range 5000 {
		r.Record(allowed(key(t, "k:"+strconv.Itoa(i%1000)), noon))
	}
	offender := key(t, "ip:192.0.2.1")
	r.Record(allowed(offender, noon))
	r.Record(limited(offender, noon, 1))
	b := drained(r)
	var inRows int64
	found := false
	for _, k := range b.Keys {
		inRows += k.Allowed
		found = found || k.Key == "ip:192.0.2.1" && k.Allowed == 1 && k.Refused == 1
	}
	if got := inRows + b.Totals[0].Untracked; got != 5001 {
		t.Errorf("%d in rows and %d untracked are not 5001", inRows, b.Totals[0].Untracked)
	}
	if !found {
		t.Error("the key that offended has no row of its traffic")
	}
}

func TestAllowedKeyIsKeptAtOnceAndBesideAFloodOfRefusedOnes(t *testing.T) {
	r := testRecorder(Options{TrafficKeys: 320, MaxKeys: 64_000})
	kept := func(g *pendingBatch, minute int64) offences.KeyTraffic {
		return *cmp.Or(g.keys[trafficID{minute, policy.ID, "ip:192.0.2.1"}], &offences.KeyTraffic{})
	}
	customer := key(t, "ip:192.0.2.1")
	r.Record(allowed(customer, noon))
	g := newPendingBatch(1 << 30)
	r.drain(g, noon.UnixMilli())
	if got := kept(g, noon.UnixMilli()); got.Allowed != 1 {
		t.Errorf("while its minute is open, the key has the row %+v", got)
	}
	r.Record(allowed(customer, noon))
	later := noon.Add(time.Minute)
	for i := range 20_000 {
		r.Record(limited(key(t, "k:"+strconv.Itoa(i)), later, 1))
		r.Record(limited(key(t, "k:"+strconv.Itoa(i)), later, 1))
	}
	r.Record(allowed(customer, later))
	r.drain(g, 1<<62)
	if got := kept(g, noon.UnixMilli()); got.Allowed != 2 || got.Overcount != 0 {
		t.Errorf("when its minute is closed, the key has the row %+v", got)
	}
	if got := kept(g, later.UnixMilli()); got.Allowed != 1 {
		t.Errorf("beside a flood, the key has the row %+v", got)
	}
	var rows int
	for id := range g.keys {
		if id.minute == noon.UnixMilli() {
			rows++
		}
	}
	if rows != 1 {
		t.Errorf("%d rows of one key", rows)
	}
}

func TestEntriesOfAClosedMinuteAreEmpty(t *testing.T) {
	r := testRecorder(Options{MaxKeys: 640})
	for i := range 5_000 {
		r.Record(limited(key(t, "k:"+strconv.Itoa(i)), noon, 1))
	}
	drained(r)
	unused := 0
	for i := range r.shards {
		s := &r.shards[i]
		for _, e := range s.offences.free {
			if unused++; e.key != (offenceKey{}) {
				t.Fatalf("a free entry has the key %+v, want none", e.key)
			}
		}
		for _, e := range s.traffic.free {
			if unused++; e.key != (trafficKey{}) {
				t.Fatalf("a free entry has the key %+v, want none", e.key)
			}
		}
	}
	if unused == 0 {
		t.Error("there are no free entries")
	}
	// A reused entry has no data of its former key.
	later := noon.Add(time.Minute)
	r.Record(limited(key(t, "k:0"), later, 1))
	if b := drained(r); len(b.Offences) != 1 || b.Offences[0].Count != 1 || b.Offences[0].Overcount != 0 || b.Offences[0].First.At != later.UnixMilli() {
		t.Errorf("a minute later: %+v", b.Offences)
	}
}
