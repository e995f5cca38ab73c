package offences_test

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/recorder"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/test/keytest"
	"github.com/stint-dev/stint/test/storetest"
)

var offenceSecret = []byte("0123456789abcdef0123456789abcdef")

// fixedView is a view of policies and blocks that tests set.
type fixedView struct {
	selector *rules.Selector
	set      *blocks.Set
}

func (v *fixedView) Selector() *rules.Selector        { return v.selector }
func (v *fixedView) Blocks() *blocks.Set              { return v.set }
func (v *fixedView) Subject(k keys.Key) rules.Subject { return rules.Subject{Key: k} }
func (v *fixedView) Profiles() *profiles.Set          { return profiles.NewSet() }
func (v *fixedView) Parser() keys.Parser              { return keys.Parser{} }

// counting is one node that counts into a store.
type counting struct {
	t        testing.TB
	clock    *storetest.Clock
	recorder *recorder.Recorder
	*recorder.Flusher
	policy      *rules.Policy
	source      string
	mu          sync.Mutex
	events      []offences.EscalationEvent
	exempt      map[string]bool
	safetyLimit float64
}

var testEscalation = rules.Escalation{Threshold: 10, Window: 5 * time.Minute, Duration: 10 * time.Minute, Factor: 2, MaxDuration: 30 * time.Minute, DecayAfter: time.Hour}

func newCounting(t testing.TB, store recorder.Sink, c *storetest.Clock, node string, escalation *rules.Escalation) *counting {
	stack, err := rules.ParseStack([]string{"1/1s", "20/1m"})
	if err != nil {
		t.Fatal(err)
	}
	n := &counting{t: t, clock: c, exempt: map[string]bool{}, source: "edge-1", safetyLimit: 1,
		policy: &rules.Policy{ID: 7, Name: "default", Mode: rules.Enforce, Rules: stack, Escalation: escalation, Match: []keys.Pattern{keytest.Pattern(t, "*")}}}
	n.recorder = recorder.NewRecorder(recorder.Options{Secret: func() []byte { return offenceSecret }, Node: node})
	n.Flusher = recorder.NewFlusher(recorder.FlusherOptions{
		Recorder: n.recorder, Sink: store, Node: node, Secret: func() []byte { return offenceSecret },
		Escalations: func() map[int64]offences.EscalationPolicy { return offences.EscalationsOf([]*rules.Policy{n.policy}) },
		Exempt:      func(key string) bool { return n.exempt[key] },
		SafetyLimit: func() float64 { return n.safetyLimit },
		OnEscalation: func(events []offences.EscalationEvent) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.events = append(n.events, events...)
		},
		Now: c.Now, Log: slog.New(slog.DiscardHandler),
	})
	return n
}

func (n *counting) record(outcome gate.Outcome, key string, times int, block *blocks.Entry) {
	n.t.Helper()
	k, err := keys.Parser{}.Key(key)
	if err != nil {
		n.t.Fatal(err)
	}
	for range times {
		d := &gate.Decision{Check: gate.Check{Key: k, Cost: 1, Source: n.source, Meta: map[string]string{"path": "/x"}}, Outcome: outcome,
			Policy: n.policy, Block: block, Answer: gate.Answer{At: n.clock.Now(), Rule: -1}}
		if outcome == gate.Limited {
			d.Rule, d.Boundary, d.RetryAt = 1, d.At.Add(-time.Minute), d.At.Add(12*time.Second)
		}
		if n.policy.Mode == rules.Shadow {
			d.Shadow = &gate.Shadow{Outcome: outcome, Policy: n.policy, Answer: d.Answer}
			d.Outcome, d.Policy, d.Answer = gate.Allowed, nil, gate.Answer{At: d.At, Rule: -1}
		}
		n.recorder.Record(d)
	}
}

func (n *counting) limited(key string, times int) {
	n.t.Helper()
	n.record(gate.Limited, key, times, nil)
}
func (n *counting) allowed(key string, times int) {
	n.t.Helper()
	n.record(gate.Allowed, key, times, nil)
}

func (n *counting) flush() {
	n.t.Helper()
	if err := n.Flush(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
}

func service(f *storetest.Fixture, policies ...*rules.Policy) *admin.Detection {
	view := &fixedView{rules.NewSelector(policies), blocks.NewSet()}
	return &admin.Detection{Store: f.Offences, View: view, Now: f.Clock.Now, Proposals: &admin.Proposals{
		Store: f.Proposals, Offences: f.Offences, View: view, Now: f.Clock.Now,
		Entries: &admin.Entries{Store: f.Entries, View: view, Offences: f.Offences, Now: f.Clock.Now}}}
}

func ranked(t testing.TB, s *sqlstore.Store, q offences.Query) map[string]int64 {
	t.Helper()
	r, err := s.Offences.Rank(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, row := range r.Rows {
		got[row.Key] = row.Offences
	}
	return got
}

func TestTwoNodesCountIntoOneRowFoundByRefusalID(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		one, other := newCounting(t, f.Offences, f.Clock, "a", nil), newCounting(t, f.Offences, f.Clock, "b", nil)
		const key = "ip:203.0.113.7"
		one.limited(key, 3)
		one.flush()
		f.Clock.Advance(10 * time.Second)
		other.limited(key, 4)
		other.allowed(key, 5)
		other.flush()
		one.limited(key, 1)
		one.flush()
		s := service(f, one.policy)
		id := offences.NewRefusalIDMaker(offenceSecret).ID(7, key, f.Clock.Now())
		e, err := s.ExplainRefusal(t.Context(), id.String())
		if err != nil {
			t.Fatal(err)
		}
		want := `"ip:203.0.113.7" was refused 8 times on 2026-03-01 between 12:00:00.000 and 12:00:10.000 UTC under the policy default: 8 by the rule 20/1m. The last answer said to ask again at 2026-03-01 12:00:22.000 UTC.`
		if e.Found != admin.RecordFound || e.Text != want {
			t.Errorf("got %s: %s", e.Found, e.Text)
		}
		o := e.Offences[0]
		if o.First.At != f.Clock.Now().Add(-10*time.Second).UnixMilli() || o.First.Boundary != o.First.At-60_000 || o.Last.Meta["path"] != "/x" || o.Last.Source != "edge-1" {
			t.Errorf("got %+v", o)
		}
		report, err := s.Offenders(t.Context(), offences.Query{From: f.Clock.Now().Add(-5 * time.Minute), To: f.Clock.Now().Add(time.Minute), Points: 6})
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Rows) != 1 {
			t.Fatalf("got %+v", report)
		}
		row := report.Rows[0]
		if row.Offences != 8 || row.Allowed != 5 || row.RefusedBy != "20/1m" || row.Policy != 7 || row.Ratio != 8.0/13 || len(row.Trend) != 6 || !report.AllowedExact ||
			!row.First.Equal(time.UnixMilli(o.First.At)) || !row.Last.Equal(f.Clock.Now()) {
			t.Errorf("got %+v", row)
		}
		traffic, err := s.Traffic(t.Context(), 7, f.Clock.Now().Add(-time.Minute), f.Clock.Now().Add(time.Minute), time.Minute)
		if err != nil || len(traffic.Points) != 1 || traffic.Points[0].Limited != 8 || traffic.Points[0].Allowed != 5 || traffic.Points[0].Keys != 1 {
			t.Errorf("got the traffic %+v, %v", traffic, err)
		}
	})
}

func TestExplainRefusalReportsWhyRecordIsMissing(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", nil)
		s := service(f)
		maker := offences.NewRefusalIDMaker(offenceSecret)
		found := func(at time.Time) admin.RecordStatus {
			t.Helper()
			e, err := s.ExplainRefusal(t.Context(), maker.ID(7, "k:lost", at).String())
			if err != nil {
				t.Fatal(err)
			}
			return e.Found
		}
		if got := found(f.Clock.Now()); got != admin.RecordPending {
			t.Errorf("within its minute: got %s, want pending", got)
		}
		aggregated := &offences.Batch{ID: "b1", Offences: []offences.Offence{{Minute: f.Clock.Now().UnixMilli(), Policy: 7, RefusedBy: offences.Other, Count: 5, Overcount: 2}}}
		if _, err := f.Offences.Flush(t.Context(), aggregated, offences.Evaluation{Now: f.Clock.Now()}); err != nil {
			t.Fatal(err)
		}
		if got := found(f.Clock.Now()); got != admin.RecordAggregated {
			t.Errorf("after offences were aggregated: got %s, want aggregated", got)
		}
		past := f.Clock.Now().Add(-2 * time.Hour)
		if got := found(past); got != admin.RecordNone {
			t.Errorf("when nothing was refused: got %s, want none", got)
		}
		n.limited("k:x", 1)
		n.flush()
		f.Clock.Advance(48 * time.Hour)
		if _, err := f.Offences.RollUp(t.Context(), f.Clock.Now()); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Offences.DeleteOlder(t.Context(), f.Clock.Now(), offences.Retention{Minutes: 24 * time.Hour}, nil); err != nil {
			t.Fatal(err)
		}
		if got := found(past); got != admin.RecordExpired {
			t.Errorf("after the retention: got %s, want expired", got)
		}
		if _, err := s.ExplainRefusal(t.Context(), "nonsense"); err == nil {
			t.Error("ExplainRefusal accepted an invalid id")
		}
	})
}

func TestFlushOfSameBatchIsIdempotent(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		b := &offences.Batch{ID: "one", Node: "a",
			Offences: []offences.Offence{{Minute: f.Clock.Now().UnixMilli(), Policy: 7, Key: "k:x", RefusedBy: "1/1s", Count: 3}},
			Totals:   []offences.Totals{{Minute: f.Clock.Now().UnixMilli(), Policy: 7, Counts: offences.Counts{Limited: 3}}}}
		for range 3 {
			if _, err := f.Offences.Flush(t.Context(), b, offences.Evaluation{Now: f.Clock.Now()}); err != nil {
				t.Fatal(err)
			}
		}
		q := offences.Query{From: f.Clock.Now(), To: f.Clock.Now().Add(time.Minute)}
		if got := ranked(t, f.Store, q); got["k:x"] != 3 {
			t.Errorf("got %v", got)
		}
	})
}

// TestRollUpWithFastClockLosesNoCounts rolls up an hour that has not ended, and whose
// counts still arrive.
func TestRollUpWithFastClockLosesNoCounts(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", nil)
		begun := f.Clock.Now().Truncate(time.Hour)
		n.limited("k:x", 3)
		n.flush()
		if done, err := f.Offences.RollUp(t.Context(), begun.Add(49*time.Hour)); err != nil || done < 2 {
			t.Fatalf("rolled up %d hours and days, want at least 2; %v", done, err)
		}
		f.Clock.Advance(time.Minute)
		n.limited("k:x", 4)
		n.limited("k:y", 2)
		n.allowed("k:y", 5)
		n.flush()
		day := begun.Truncate(24 * time.Hour)
		for span, q := range map[string]offences.Query{
			"minutes": {From: begun, To: f.Clock.Now().Add(time.Minute)},
			"hours":   {From: begun, To: begun.Add(time.Hour)},
			"days":    {From: day, To: day.Add(24 * time.Hour)},
		} {
			if got := fmt.Sprint(ranked(t, f.Store, q)); got != "map[k:x:7 k:y:2]" {
				t.Errorf("by %s: got %s, want map[k:x:7 k:y:2]", span, got)
			}
			traffic, err := f.Offences.Traffic(t.Context(), 7, q.From, q.To, 24*time.Hour)
			if err != nil || len(traffic.Points) != 1 || traffic.Points[0].Limited != 9 || traffic.Points[0].Allowed != 5 {
				t.Errorf("by %s: got the traffic %+v, %v", span, traffic, err)
			}
		}
	})
}

func TestOffencesAreCountedExactlyBySource(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", nil)
		begun := f.Clock.Now()
		limited := func(source, key string, times int) {
			n.source = source
			n.limited(key, times)
		}
		for range 3 { // edge-2 is neither the first nor the last source
			limited("edge-1", "k:x", 2)
			limited("edge-2", "k:x", 5)
			limited("edge-1", "k:x", 1)
			limited("edge-3", "k:y", 4)
			n.flush()
			f.Clock.Advance(20 * time.Minute)
		}
		check := func(when string) {
			t.Helper()
			for source, want := range map[string]string{"edge-1": "map[k:x:9]", "edge-2": "map[k:x:15]", "edge-3": "map[k:y:12]", "edge-4": "map[]"} {
				q := offences.Query{From: begun, To: begun.Add(time.Hour), Source: source, Points: 1}
				if got := fmt.Sprint(ranked(t, f.Store, q)); got != want {
					t.Errorf("%s, by %s: %s, want %s", when, source, got, want)
				}
				report, err := service(f).Offenders(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				for _, row := range report.Rows {
					if row.Trend[0] != row.Offences {
						t.Errorf("%s, by %s: a trend of %d over %d offences", when, source, row.Trend, row.Offences)
					}
				}
			}
			if got := fmt.Sprint(ranked(t, f.Store, offences.Query{From: begun, To: begun.Add(time.Hour)})); got != "map[k:x:24 k:y:12]" {
				t.Errorf("%s, by any source: got %s", when, got)
			}
		}
		check("by minutes")
		k, err := keys.Parser{}.Key("k:x")
		if err != nil {
			t.Fatal(err)
		}
		record, err := service(f).ExplainRefusal(t.Context(), offences.NewRefusalIDMaker(offenceSecret).ID(7, k.String(), begun).String())
		if err != nil || len(record.Offences) != 1 || record.Offences[0].Count != 8 {
			t.Errorf("got the record of one minute %+v, %v, want 8 offences", record, err)
		}
		f.Clock.Advance(3 * time.Hour)
		if _, err := f.Offences.RollUp(t.Context(), f.Clock.Now()); err != nil {
			t.Fatal(err)
		}
		check("by hours")
	})
}

func TestTimelineAndRulesReportCountsByTime(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		start := f.Clock.Now()
		n := newCounting(t, f.Offences, f.Clock, "a", storetest.Escalation())
		s := service(f, n.policy)
		n.limited("k:x", 12)
		n.allowed("k:x", 3)
		n.flush()
		f.Clock.Advance(2 * time.Minute)
		n.record(gate.Blocked, "k:x", 5, automaticBlocks(t, f.Store)[0])
		n.limited("k:y", 2)
		n.flush()
		k, err := keys.Parser{}.Key("k:x")
		if err != nil {
			t.Fatal(err)
		}
		line, err := s.Timeline(t.Context(), k, start, start.Add(10*time.Minute), 10)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range line.Points {
			want := map[int]offences.TimelinePoint{0: {Limited: 12}, 2: {Blocked: 5}}[i]
			if want.At = start.Add(time.Duration(i) * time.Minute); p != want {
				t.Errorf("point %d is %+v, want %+v", i, p, want)
			}
		}
		if line.Allowed != 3 || len(line.Events) != 1 || line.Events[0].Level != 1 {
			t.Errorf("got %+v", line)
		}
		rows, err := s.Rules(t.Context(), start, start.Add(10*time.Minute))
		if err != nil || len(rows) != 3 {
			t.Fatalf("got %+v, %v", rows, err)
		}
		if rows[0].RefusedBy != "20/1m" || rows[0].Refused() != 14 || rows[0].Keys != 2 || rows[0].Ratio != 14.0/19 ||
			rows[1].Kind != offences.Blocked || rows[1].Refused() != 5 || rows[2].RefusedBy != "1/1s" || rows[2].Refused() != 0 {
			t.Errorf("got %+v", rows)
		}
		f.Clock.Advance(2 * time.Minute)
		n.flush() // the minutes are over, and their traffic samples are written
		seen := map[string]int{}
		err = f.Offences.TrafficSamples(t.Context(), start, start.Add(time.Hour), func(c *offences.SampleChunk) error {
			points, err := c.Decode()
			for _, p := range points {
				seen[p.Key] += p.Count
			}
			return err
		})
		if err != nil || seen["k:x"] != 20 || seen["k:y"] != 2 {
			t.Errorf("the traffic sample has %v, %v, want 20 checks of k:x and 2 of k:y", seen, err)
		}
	})
}
