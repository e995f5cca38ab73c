package sqlstore_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/sqlstore"
)

func automatic(t testing.TB, s *sqlstore.Store) []*blocks.Entry {
	t.Helper()
	page, err := s.Entries().Find(t.Context(), blocks.Filter{Kind: blocks.Block, State: "all", Source: blocks.Automatic})
	if err != nil {
		t.Fatal(err)
	}
	return page.Items
}

func withEscalation() *rules.Escalation {
	l := testEscalation
	return &l
}

func TestOffencesOnTwoNodesCrossTheEscalationOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		second := f.Store
		if f.url[0] == 'p' { // an SQLite file belongs to one node
			second = f.another(t)
		}
		nodes := []*counting{newCounting(t, f.Store, f.clock, "a", withEscalation()), newCounting(t, second, f.clock, "b", withEscalation())}
		for range 6 { // 12 in all, 10 are enough, and no node sees more than 6
			var both sync.WaitGroup
			for _, n := range nodes {
				n.limited("ip:203.0.113.7", 1)
				both.Go(func() {
					if err := n.Flush(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			both.Wait()
		}
		made := automatic(t, f.Store)
		if len(made) != 1 {
			t.Fatalf("%d blocks were made", len(made))
		}
		b := made[0]
		if b.Pattern.String() != "ip:203.0.113.7" || b.PolicyID != 7 || b.Level != 1 || b.Author != "escalation" || !b.Expires.Equal(f.clock.Now().Add(10*time.Minute)) {
			t.Errorf("got %+v", b)
		}
		if heard := len(nodes[0].events) + len(nodes[1].events); heard != 1 {
			t.Errorf("%d events were heard", heard)
		}
		entries, err := f.FindRecords(t.Context(), audit.Filter{Action: "block.add"})
		if err != nil || len(entries.Records) != 1 || entries.Records[0].Actor != audit.SystemActor("escalation") {
			t.Errorf("the audit holds %+v, %v", entries, err)
		}
	})
}

func TestEachBlockIsLongerUpToTheCapAndStepsAreForgotten(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		n := newCounting(t, f.Store, f.clock, "a", withEscalation())
		s := service(f, n.policy)
		offend := func() time.Duration {
			t.Helper()
			n.limited("k:x", 10)
			n.flush()
			b := automatic(t, f.Store)[0]
			if !b.Created.Equal(f.clock.Now()) {
				t.Fatalf("no block was made; the newest is of %s", b.Created)
			}
			return b.Expires.Sub(b.Created)
		}
		for i, want := range []time.Duration{10 * time.Minute, 20 * time.Minute, 30 * time.Minute, 30 * time.Minute} {
			if got := offend(); got != want {
				t.Errorf("block %d is %s long, want %s", i+1, got, want)
			}
			f.clock.Advance(want)
		}
		standing := func() *offences.EscalationStatus {
			t.Helper()
			k, _ := keys.Parser{}.Key("k:x")
			at, _, err := s.EscalationStatus(t.Context(), k)
			if err != nil || at == nil {
				t.Fatalf("%v, %v", at, err)
			}
			return at
		}
		at := standing()
		if at.Level != 4 || at.Levels != 3 || at.Next != 30*time.Minute || at.Count != 0 || !at.DecaysAt.Equal(f.clock.Now().Add(time.Hour)) {
			t.Errorf("stands at %+v", at)
		}
		f.clock.Advance(2*time.Hour + time.Minute)
		if at := standing(); at.Level != 2 || at.Next != 30*time.Minute {
			t.Errorf("after two quiet spells it stands at %+v", at)
		}
		f.clock.Advance(time.Hour)
		if got := offend(); got != 20*time.Minute {
			t.Errorf("after three quiet spells the block is %s long", got)
		}
	})
}

func TestOnlyWhatCameAfterABlockCounts(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		n := newCounting(t, f.Store, f.clock, "a", withEscalation())
		n.limited("k:x", 10)
		n.flush()
		n.limited("k:x", 50) // another node had not heard of the block yet
		n.flush()
		b := automatic(t, f.Store)[0]
		n.record(gate.Blocked, "k:x", 100, b)
		n.flush()
		f.clock.Advance(10 * time.Minute)
		n.limited("k:x", 9)
		n.flush()
		if got := len(automatic(t, f.Store)); got != 1 {
			t.Fatalf("nine offences after the block made %d blocks", got)
		}
		n.limited("k:x", 1)
		n.flush()
		if got := automatic(t, f.Store); len(got) != 2 || got[0].Level != 2 {
			t.Fatalf("the tenth made %d blocks", len(got))
		}
		// Lifted at once: what came before does not count again.
		if _, err := f.Entries().End(t.Context(), operator, blocks.Block, "a partner", automatic(t, f.Store)[0].ID); err != nil {
			t.Fatal(err)
		}
		f.clock.Advance(time.Second)
		n.limited("k:x", 9)
		n.flush()
		if got := len(automatic(t, f.Store)); got != 2 {
			t.Fatalf("nine offences after the lift made %d blocks", got)
		}
		n.limited("k:x", 1)
		n.flush()
		if got := automatic(t, f.Store); len(got) != 3 || got[0].Level != 3 {
			t.Errorf("the tenth made %d blocks", len(got))
		}
	})
}

func TestOffencesFromBeforeAnOperatorsBlockDoNotCountAfterIt(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		n := newCounting(t, f.Store, f.clock, "a", withEscalation())
		n.limited("ip:203.0.113.7", 9)
		n.flush()
		if _, err := f.Entries().Add(t.Context(), operator, blocks.Fail, blocks.Entry{Kind: blocks.Block, Pattern: pattern(t, "ip:203.0.113.0/24"), Expires: f.clock.Now().Add(time.Minute)}); err != nil {
			t.Fatal(err)
		}
		f.clock.Advance(2 * time.Minute)
		n.limited("ip:203.0.113.7", 9)
		n.flush()
		if got := len(automatic(t, f.Store)); got != 0 {
			t.Errorf("%d blocks for offences from before the operator's block", got)
		}
		n.limited("ip:203.0.113.7", 1)
		n.flush()
		if got := len(automatic(t, f.Store)); got != 1 {
			t.Errorf("%d blocks after ten offences since", got)
		}
	})
}

func TestTheWindowIsWholeMinutesAndAtMostOneMore(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		n := newCounting(t, f.Store, f.clock, "a", withEscalation())
		n.limited("k:within", 5)
		n.limited("k:beyond", 5)
		n.flush()
		f.clock.Advance(5 * time.Minute)
		n.limited("k:within", 5)
		n.flush()
		f.clock.Advance(time.Minute)
		n.limited("k:beyond", 5)
		n.flush()
		if got := automatic(t, f.Store); len(got) != 1 || got[0].Pattern.String() != "k:within" {
			t.Errorf("got %v", got)
		}
	})
}

func TestOnlyWhatIsCertainAndNotExemptClimbs(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		n := newCounting(t, f.Store, f.clock, "a", withEscalation())
		n.exempt["k:exempt"] = true
		n.limited("k:exempt", 50)
		n.flush()
		guess := &offences.Batch{ID: "guess", Offences: []offences.Offence{
			{Minute: f.clock.Now().UnixMilli(), Policy: 7, Key: "k:guess", RefusedBy: "1/1s", Count: 9, Overcount: 1000, First: offences.Refusal{At: f.clock.Now().UnixMilli()}},
			{Minute: f.clock.Now().UnixMilli(), Policy: 7, RefusedBy: offences.Other, Count: 5000},
		}}
		e := offences.Evaluation{Escalations: offences.EscalationsOf([]*rules.Policy{n.policy}), SafetyLimit: n.guard, Now: f.clock.Now()}
		if _, err := f.Flush(t.Context(), guess, e); err != nil {
			t.Fatal(err)
		}
		if got := automatic(t, f.Store); len(got) != 0 {
			t.Errorf("got %v", got)
		}
	})
}

func TestAShadowPolicySaysWhomItWouldHaveBlocked(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		n := newCounting(t, f.Store, f.clock, "a", withEscalation())
		n.policy.Mode = rules.Shadow
		n.limited("k:x", 25)
		n.flush()
		n.limited("k:x", 25) // within the block that it would have been
		n.flush()
		if got := automatic(t, f.Store); len(got) != 0 {
			t.Errorf("a shadow policy blocked: %v", got)
		}
		events, err := f.EscalationEvents(t.Context(), offences.EscalationFilter{Key: "k:x"})
		if err != nil || len(events) != 1 || events[0].Kind != offences.EscalationWouldBlock || events[0].Length != 10*time.Minute || events[0].Offences != 25 {
			t.Errorf("got %+v, %v", events, err)
		}
	})
}

func TestAEscalationThatWouldBlockTooManyStopsAndWaitsForAPerson(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		n := newCounting(t, f.Store, f.clock, "a", withEscalation())
		n.guard = offences.SafetyLimitSettings{Ratio: 0.1, MinKeys: 3}
		for i := range 60 {
			n.allowed("k:good"+strconv.Itoa(i), 1)
		}
		n.flush() // seen: 60 and what follows, so about 6 may be blocked
		for i := range 4 {
			n.limited("k:bad"+strconv.Itoa(i), 10)
		}
		n.flush()
		if got := len(automatic(t, f.Store)); got != 4 {
			t.Fatalf("%d of 4 were blocked", got)
		}
		for i := range 30 {
			n.limited("k:worse"+strconv.Itoa(i), 10)
		}
		n.flush()
		if got := len(automatic(t, f.Store)); got != 4 {
			t.Fatalf("the escalation blocked %d in spite of its guard", got)
		}
		stops, err := f.EscalationPauses(t.Context())
		if err != nil || len(stops) != 1 || stops[0].WouldBlock != 34 || stops[0].Name != "default" {
			t.Fatalf("stops are %+v, %v", stops, err)
		}
		if last := n.events[len(n.events)-1]; last.Kind != offences.EscalationPaused || len(n.events) != 5 {
			t.Errorf("events are %+v", n.events)
		}
		f.clock.Advance(2 * time.Hour)
		n.limited("k:new", 10)
		n.flush()
		if got := len(automatic(t, f.Store)); got != 4 {
			t.Errorf("it went on by itself")
		}
		if err := f.ResumeEscalation(t.Context(), operator, 7); err != nil {
			t.Fatal(err)
		}
		if err := f.ResumeEscalation(t.Context(), operator, 7); !fault.Is(err, fault.NotFound) {
			t.Errorf("resumed a second time: %v", err)
		}
		entries, err := f.FindRecords(t.Context(), audit.Filter{Action: "escalation.resume"})
		if err != nil || len(entries.Records) != 1 || entries.Records[0].Actor != operator {
			t.Errorf("the audit holds %+v, %v", entries, err)
		}
		n.limited("k:new", 1)
		n.flush()
		if got := automatic(t, f.Store); len(got) != 5 || got[0].Pattern.String() != "k:new" {
			t.Errorf("after it was resumed there are %d blocks", len(got))
		}
	})
}

func TestTheGuardKnowsTheKeysOfTheRunningMinute(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		n := newCounting(t, f.Store, f.clock, "a", withEscalation())
		n.guard = offences.SafetyLimitSettings{Ratio: 0.1, MinKeys: 3}
		n.allowed("k:first", 1)
		n.flush() // a node that has just begun, and has handed over a sketch
		for i := range 60 {
			n.allowed("k:good"+strconv.Itoa(i), 1)
		}
		for i := range 4 {
			n.limited("k:bad"+strconv.Itoa(i), 10)
		}
		n.flush()
		if got := len(automatic(t, f.Store)); got != 4 {
			stops, err := f.EscalationPauses(t.Context())
			t.Errorf("%d of 4 were blocked; %+v, %v", got, stops, err)
		}
		points, err := f.Traffic(t.Context(), 7, f.clock.Now().Truncate(time.Minute), f.clock.Now().Add(time.Minute), time.Minute)
		if err != nil || len(points) != 1 || points[0].Keys < 60 || points[0].Keys > 70 {
			t.Errorf("the running minute is %+v, %v", points, err)
		}
		m := newCounting(t, f.Store, f.clock, "b", nil) // the same node started again within the minute
		for i := range 40 {
			m.allowed("k:later"+strconv.Itoa(i), 1)
		}
		m.flush()
		if points, err = f.Traffic(t.Context(), 7, f.clock.Now().Truncate(time.Minute), f.clock.Now().Add(time.Minute), time.Minute); err != nil || points[0].Keys < 100 || points[0].Keys > 110 {
			t.Errorf("after another start it is %+v, %v", points, err)
		}
	})
}

// TestAnyHistoryClimbsAsTheModelSays plays random offences, waits and lifts
// against a plain model of the escalation.
func TestAnyHistoryClimbsAsTheModelSays(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		for seed := range uint64(6) {
			climbAtRandom(t, f, seed)
			f.clock.Advance(24 * time.Hour)
		}
	})
}

func climbAtRandom(t *testing.T, f *fixture, seed uint64) {
	n := newCounting(t, f.Store, f.clock, "a", withEscalation())
	m := &escalationModel{Escalation: testEscalation, counts: map[time.Time]int{}}
	random := newRandom(seed)
	key := "k:random" + strconv.Itoa(int(seed))
	for step := range 60 {
		f.clock.Advance([]time.Duration{time.Second, 30 * time.Second, time.Minute, 4 * time.Minute, 11 * time.Minute, 90 * time.Minute}[random.IntN(6)])
		now := f.clock.Now()
		if now.Before(m.ends) {
			if random.IntN(4) == 0 {
				if _, err := f.Entries().End(t.Context(), operator, blocks.Block, "", m.block); err != nil {
					t.Fatal(err)
				}
				m.ends = now
				f.clock.Advance(time.Millisecond)
			} else {
				n.record(gate.Blocked, key, 3, &blocks.Entry{Kind: blocks.Block, ID: m.block})
				n.flush()
				m.forget(now)
				m.last = now
			}
			continue
		}
		times := 1 + random.IntN(7)
		n.limited(key, times)
		n.flush()
		length, escalates := m.offend(now, times)
		before := m.made
		all := ofKey(automatic(t, f.Store), key)
		if escalates {
			before++
		}
		if len(all) != before {
			t.Fatalf("seed %d, step %d: %d blocks, the model has %d", seed, step, len(all), before)
		}
		if escalates {
			if got := all[0].Expires.Sub(all[0].Created); got != length || all[0].Level != m.step {
				t.Fatalf("seed %d, step %d: a block of %s at step %d, the model has %s at %d", seed, step, got, all[0].Level, length, m.step)
			}
			m.made, m.block, m.ends = before, all[0].ID, all[0].Expires
		}
	}
	if m.made == 0 {
		t.Errorf("seed %d never escalated", seed)
	}
}

func ofKey(all []*blocks.Entry, key string) (found []*blocks.Entry) {
	for _, b := range all {
		if b.Pattern.String() == key {
			found = append(found, b)
		}
	}
	return found
}

// escalationModel is an escalation as its documentation describes it.
type escalationModel struct {
	rules.Escalation
	counts     map[time.Time]int // by minute, since the last block
	step, made int
	block      string
	last, ends time.Time
	forgotten  time.Time
}

func (m *escalationModel) forget(now time.Time) {
	quiet := m.last
	for _, at := range []time.Time{m.ends, m.forgotten} {
		if at.After(quiet) {
			quiet = at
		}
	}
	for m.step > 0 && !quiet.IsZero() && !now.Before(quiet.Add(m.DecayAfter)) {
		quiet = quiet.Add(m.DecayAfter)
		m.forgotten = quiet
		m.step--
	}
}

func (m *escalationModel) offend(now time.Time, times int) (time.Duration, bool) {
	m.forget(now)
	m.last = now
	m.counts[now.Truncate(time.Minute)] += times
	sum := 0
	for minute, n := range m.counts {
		if !minute.Before(now.Truncate(time.Minute).Add(-m.Window)) {
			sum += n
		}
	}
	if sum < m.Threshold {
		return 0, false
	}
	length := m.Duration
	for range m.step {
		length = min(m.MaxDuration, time.Duration(float64(length)*m.Factor))
	}
	m.step++
	clear(m.counts)
	return length, true
}

func TestCrowdedRangesAreProposedAndNeverBlockedByThemselves(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		n := newCounting(t, f.Store, f.clock, "a", nil)
		s := service(f, n.policy)
		for i := range 9 {
			n.limited(fmt.Sprintf("ip:203.0.113.%d", i), 2+i)
			n.limited(fmt.Sprintf("ip:2001:db8:7:%x::1", i), 1)
		}
		for i := range 7 { // too few
			n.limited(fmt.Sprintf("ip:198.51.100.%d", i), 50)
		}
		n.allowed("ip:203.0.113.200", 4)
		f.clock.Advance(2 * time.Minute)
		n.flush()
		if _, err := f.Entries().Add(t.Context(), operator, blocks.Fail, blocks.Entry{Kind: blocks.Exemption, Pattern: pattern(t, "ip:203.0.113.250")}); err != nil {
			t.Fatal(err)
		}
		made, err := s.Propose(t.Context())
		if err != nil || len(made) != 2 {
			t.Fatalf("proposed %+v, %v", made, err)
		}
		p, err := f.FindProposalByID(t.Context(), made[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		e := p.Evidence
		if p.Pattern.String() != "ip:203.0.113.0/24" || e.OffendedCount != 9 || e.Offences != 54 || e.SeenCount != 1 || e.Allowed != 4 ||
			len(e.Exempt) != 1 || e.Exempt[0] != "ip:203.0.113.250" || e.Offended[0].Key != "ip:203.0.113.8" || e.Size != 256 {
			t.Errorf("got %+v", p)
		}
		if made[1].Pattern.String() != "ip:2001:db8:7::/48" {
			t.Errorf("got %s", made[1].Pattern)
		}
		if again, err := s.Propose(t.Context()); err != nil || len(again) != 0 {
			t.Errorf("proposed again: %+v, %v", again, err)
		}
		if page, err := f.Entries().Find(t.Context(), blocks.Filter{Kind: blocks.Block, State: "all"}); err != nil || page.Total != 0 {
			t.Errorf("%d blocks were made by themselves, %v", page.Total, err)
		}
		accepted, err := s.AcceptProposal(t.Context(), operator, made[0].ID, f.clock.Now().Add(24*time.Hour), "")
		if err != nil || accepted.Decision != offences.Accepted {
			t.Fatalf("%+v, %v", accepted, err)
		}
		if b, err := f.Entries().ByID(t.Context(), blocks.Block, accepted.BlockID); err != nil || b.Pattern.String() != "ip:203.0.113.0/24" || b.Author != "ann" {
			t.Errorf("%+v, %v", b, err)
		}
		if _, err := s.AcceptProposal(t.Context(), operator, made[0].ID, time.Time{}, ""); !fault.Is(err, fault.Conflict) {
			t.Errorf("accepted twice: %v", err)
		}
		if _, err := s.DismissProposal(t.Context(), operator, made[1].ID, "a university"); err != nil {
			t.Fatal(err)
		}
		if again, err := s.Propose(t.Context()); err != nil || len(again) != 1 || again[0].Pattern.String() != "ip:203.0.113.0/24" {
			t.Errorf("after one was dismissed and one accepted: %+v, %v", again, err)
		}
		blast, err := s.BlastRadius(t.Context(), pattern(t, "ip:203.0.113.0/24"), f.clock.Now().Add(-time.Hour), f.clock.Now())
		if err != nil || blast.Keys != 10 || blast.Offenders != 9 || blast.Allowed != 4 || blast.AllowedShare != 1 || blast.AllKeys != 26 || len(blast.Exempt) != 1 || !blast.Exact {
			t.Errorf("blast radius is %+v, %v", blast, err)
		}
	})
}

func TestThePartsOfANetworkAreAddedUpByTheirAddresses(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		n := newCounting(t, f.Store, f.clock, "a", nil)
		n.limited("ip:198.51.0.1", 2)
		n.limited("ip:198.51.100.7", 3)
		n.allowed("ip:198.51.100.9", 4)
		n.allowed("ip:198.51.103.1", 5)
		n.limited("ip:198.52.0.1", 9) // outside
		n.limited("ip:2001:db8:7:1::1", 6)
		n.limited("ip:2001:db8:7:2::1", 7)
		n.limited("token:a", 8)
		f.clock.Advance(2 * time.Minute)
		n.flush()
		for _, tc := range []struct {
			network string
			bits    int
			want    string
		}{
			{"198.51.0.0/16", 24, "198.51.0.0/24 1 0 2; 198.51.100.0/24 2 4 3; 198.51.103.0/24 1 5 0"},
			{"198.51.0.0/16", 22, "198.51.0.0/22 1 0 2; 198.51.100.0/22 3 9 3"}, // bits within a byte
			{"198.51.100.0/24", 32, "198.51.100.7/32 1 0 3; 198.51.100.9/32 1 4 0"},
			{"2001:db8:7::/48", 56, "2001:db8:7::/56 2 0 13"},
			{"::/0", 8, "2000::/8 2 0 13"}, // IPv4 is no part of IPv6
			{"192.0.2.0/24", 32, ""},
		} {
			parts, err := f.SeenParts(t.Context(), netip.MustParsePrefix(tc.network), tc.bits, f.clock.Now().Add(-time.Hour), f.clock.Now())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range parts {
				got = append(got, fmt.Sprintf("%s %d %d %d", p.Network, p.Keys, p.Allowed, p.Refused))
			}
			if text := strings.Join(got, "; "); text != tc.want {
				t.Errorf("%s in parts of /%d: got %q, want %q", tc.network, tc.bits, text, tc.want)
			}
		}
	})
}

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }
