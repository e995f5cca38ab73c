package offences_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/test/storetest"
)

func TestAnEscalationThatWouldBlockTooManyStopsAndWaitsForAPerson(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", storetest.Escalation())
		n.safetyLimit = 0.1
		for i := range 150 {
			n.allowed("k:good"+strconv.Itoa(i), 1)
		}
		n.flush() // seen: 150 and what follows, so about 15 may be blocked
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
			t.Fatalf("the escalation blocked %d in spite of its safety limit", got)
		}
		stops, err := f.Offences.EscalationPauses(t.Context())
		if err != nil || len(stops) != 1 || stops[0].WouldBlock != 34 || stops[0].Name != "default" {
			t.Fatalf("stops are %+v, %v", stops, err)
		}
		if last := n.events[len(n.events)-1]; last.Kind != offences.EscalationPaused || len(n.events) != 5 {
			t.Errorf("events are %+v", n.events)
		}
		f.Clock.Advance(2 * time.Hour)
		n.limited("k:new", 10)
		n.flush()
		if got := len(automatic(t, f.Store)); got != 4 {
			t.Errorf("it went on by itself")
		}
		if err := f.Offences.ResumeEscalation(t.Context(), storetest.Operator, 7); err != nil {
			t.Fatal(err)
		}
		if err := f.Offences.ResumeEscalation(t.Context(), storetest.Operator, 7); !fault.Is(err, fault.NotFound) {
			t.Errorf("resumed a second time: %v", err)
		}
		entries, err := f.Audit.FindRecords(t.Context(), audit.Filter{Action: "escalation.resume"})
		if err != nil || len(entries.Records) != 1 || entries.Records[0].Actor != storetest.Operator {
			t.Errorf("the audit holds %+v, %v", entries, err)
		}
		n.limited("k:new", 1)
		n.flush()
		if got := automatic(t, f.Store); len(got) != 5 || got[0].Pattern.String() != "k:new" {
			t.Errorf("after it was resumed there are %d blocks", len(got))
		}
	})
}

func TestTheSafetyLimitOfATrapIsAPartOfAllKeys(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		others := newCounting(t, f.Offences, f.Clock, "a", nil)
		for i := range 150 {
			others.allowed("k:good"+strconv.Itoa(i), 1)
		}
		others.flush()
		n := newCounting(t, f.Offences, f.Clock, "b", storetest.Escalation())
		n.safetyLimit = 0.1
		when, err := conditions.Parse([4][]string{conditions.Path: {"/.env"}})
		if err != nil {
			t.Fatal(err)
		}
		n.policy.ID, n.policy.When, n.policy.Rules = 8, when, rules.Stack{{Limit: 0, Window: time.Second}, {Limit: 0, Window: time.Minute}}
		for i := range 5 {
			n.limited("k:bad"+strconv.Itoa(i), 10)
		}
		n.flush()
		if got := len(automatic(t, f.Store)); got != 5 {
			stops, err := f.Offences.EscalationPauses(t.Context())
			t.Errorf("%d of 5 were blocked; %+v, %v", got, stops, err)
		}
		for i := range 20 {
			n.limited("k:worse"+strconv.Itoa(i), 10)
		}
		n.flush()
		if got := len(automatic(t, f.Store)); got != 5 {
			t.Errorf("the trap blocked %d in spite of its safety limit", got)
		}
	})
}

func TestTheSafetyLimitKnowsTheKeysOfTheRunningMinute(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", storetest.Escalation())
		n.safetyLimit = 0.1
		n.allowed("k:first", 1)
		n.flush() // a node that has just begun, and has handed over a sketch
		for i := range 200 {
			n.allowed("k:good"+strconv.Itoa(i), 1)
		}
		for i := range 15 {
			n.limited("k:bad"+strconv.Itoa(i), 10)
		}
		n.flush()
		if got := len(automatic(t, f.Store)); got != 15 {
			stops, err := f.Offences.EscalationPauses(t.Context())
			t.Errorf("%d of 15 were blocked; %+v, %v", got, stops, err)
		}
		points, err := f.Offences.Traffic(t.Context(), 7, f.Clock.Now().Truncate(time.Minute), f.Clock.Now().Add(time.Minute), time.Minute)
		if err != nil || len(points.Points) != 1 || points.Points[0].Keys < 205 || points.Points[0].Keys > 230 {
			t.Errorf("the running minute is %+v, %v", points, err)
		}
		m := newCounting(t, f.Offences, f.Clock, "b", nil) // the same node started again within the minute
		for i := range 40 {
			m.allowed("k:later"+strconv.Itoa(i), 1)
		}
		m.flush()
		if points, err = f.Offences.Traffic(t.Context(), 7, f.Clock.Now().Truncate(time.Minute), f.Clock.Now().Add(time.Minute), time.Minute); err != nil || points.Points[0].Keys < 245 || points.Points[0].Keys > 270 {
			t.Errorf("after another start it is %+v, %v", points, err)
		}
	})
}

// One attacker may have all addresses of an IPv6 /48 or an IPv4 /24. Using many of them
// pauses no escalation, and the blocks of them use little of what it may block.
func TestTheNetworkOfOneAttackerPausesNoEscalation(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", storetest.Escalation())
		n.safetyLimit = offences.DefaultSafetyLimit
		offend := func(format string, from, to int) {
			t.Helper()
			for i := from; i < to; i++ {
				n.limited(fmt.Sprintf(format, i), 10)
			}
			n.flush()
		}
		blocked := func(want int) {
			t.Helper()
			if got := len(automatic(t, f.Store)); got != want {
				stops, err := f.Offences.EscalationPauses(t.Context())
				t.Fatalf("%d were blocked, want %d; %+v, %v", got, want, stops, err)
			}
		}
		offend("ip:2001:db8:0:%x::1", 0, 33) // of one /56
		blocked(33)
		offend("ip:2001:db8:0:1%02x::1", 0, 10) // and of another, of the same /48
		blocked(43)
		offend("ip:203.0.113.%d", 0, 15)
		blocked(58)
		offend("ip:198.51.%d.7", 0, 8) // of eight networks: ten in all
		blocked(66)
		offend("ip:203.0.113.%d", 20, 25) // whose network is counted already
		blocked(71)
		offend("token:%d", 0, 1)
		blocked(71)
		stops, err := f.Offences.EscalationPauses(t.Context())
		if err != nil || len(stops) != 1 || stops[0].WouldBlock != 11 || stops[0].Allowed != 10 || stops[0].Seen > 11 {
			t.Errorf("stops are %+v, %v", stops, err)
		}
	})
}

// Nodes of the release before count every key for itself, and write no units.
func TestTheSafetyLimitCountsWhatTheReleaseBeforeWrote(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", storetest.Escalation())
		n.safetyLimit = 0.1
		for i := range 200 {
			n.allowed(fmt.Sprintf("ip:198.%d.100.7", i), 1)
		}
		for i := range 8 {
			n.limited(fmt.Sprintf("ip:203.0.%d.7", i), 10)
		}
		n.flush()
		f.Exec(t, "DELETE FROM safety_units")
		f.Exec(t, "UPDATE escalation_events SET counted_as = ''")
		m := newCounting(t, f.Offences, f.Clock, "b", storetest.Escalation())
		m.safetyLimit = 0.1
		for i := range 8 {
			m.limited(fmt.Sprintf("ip:203.1.%d.7", i), 10)
		}
		m.flush() // 16 of 216, of which about 20 are allowed
		if got := len(automatic(t, f.Store)); got != 16 {
			stops, err := f.Offences.EscalationPauses(t.Context())
			t.Errorf("%d of 16 were blocked; %+v, %v", got, stops, err)
		}
	})
}
