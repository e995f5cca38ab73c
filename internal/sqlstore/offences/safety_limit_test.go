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

func TestEscalationPausesAtSafetyLimitUntilResumed(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", storetest.Escalation())
		n.safetyLimit = 0.1
		for i := range 150 {
			n.allowed("k:good"+strconv.Itoa(i), 1)
		}
		n.flush() // 150 keys seen and the next ones, so about 15 may be blocked
		for i := range 4 {
			n.limited("k:bad"+strconv.Itoa(i), 10)
		}
		n.flush()
		if got := len(automaticBlocks(t, f.Store)); got != 4 {
			t.Fatalf("%d keys were blocked, want 4", got)
		}
		for i := range 30 {
			n.limited("k:worse"+strconv.Itoa(i), 10)
		}
		n.flush()
		if got := len(automaticBlocks(t, f.Store)); got != 4 {
			t.Fatalf("%d keys are blocked, want 4: the safety limit had no effect", got)
		}
		pauses, err := f.Offences.EscalationPauses(t.Context())
		if err != nil || len(pauses) != 1 || pauses[0].WouldBlock != 34 || pauses[0].Name != "default" {
			t.Fatalf("got the pauses %+v, %v", pauses, err)
		}
		if last := n.events[len(n.events)-1]; last.Kind != offences.EscalationPaused || len(n.events) != 5 {
			t.Errorf("got the events %+v", n.events)
		}
		f.Clock.Advance(2 * time.Hour)
		n.limited("k:new", 10)
		n.flush()
		if got := len(automaticBlocks(t, f.Store)); got != 4 {
			t.Errorf("%d keys are blocked, want 4: the escalation resumed by itself", got)
		}
		if err := f.Offences.ResumeEscalation(t.Context(), storetest.Operator, 7); err != nil {
			t.Fatal(err)
		}
		if err := f.Offences.ResumeEscalation(t.Context(), storetest.Operator, 7); !fault.Is(err, fault.NotFound) {
			t.Errorf("resuming a second time: got %v, want NotFound", err)
		}
		entries, err := f.Audit.FindRecords(t.Context(), audit.Filter{Action: "escalation.resume"})
		if err != nil || len(entries.Records) != 1 || entries.Records[0].Actor != storetest.Operator {
			t.Errorf("got the audit records %+v, %v", entries, err)
		}
		n.limited("k:new", 1)
		n.flush()
		if got := automaticBlocks(t, f.Store); len(got) != 5 || got[0].Pattern.String() != "k:new" {
			t.Errorf("%d keys are blocked after the escalation was resumed, want 5", len(got))
		}
	})
}

func TestSafetyLimitOfTrapIsRatioOfAllKeys(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		others := newCounting(t, f.Offences, f.Clock, "a", nil)
		for i := range 150 {
			others.allowed("k:good"+strconv.Itoa(i), 1)
		}
		others.flush()
		n := newCounting(t, f.Offences, f.Clock, "b", storetest.Escalation())
		n.safetyLimit = 0.1
		when, err := conditions.Parse(conditions.Texts{"path": {"/.env"}})
		if err != nil {
			t.Fatal(err)
		}
		n.policy.ID, n.policy.When, n.policy.Rules = 8, when, rules.Stack{{Limit: 0, Window: time.Second}, {Limit: 0, Window: time.Minute}}
		for i := range 5 {
			n.limited("k:bad"+strconv.Itoa(i), 10)
		}
		n.flush()
		if got := len(automaticBlocks(t, f.Store)); got != 5 {
			pauses, err := f.Offences.EscalationPauses(t.Context())
			t.Errorf("%d keys were blocked, want 5; %+v, %v", got, pauses, err)
		}
		for i := range 20 {
			n.limited("k:worse"+strconv.Itoa(i), 10)
		}
		n.flush()
		if got := len(automaticBlocks(t, f.Store)); got != 5 {
			t.Errorf("%d keys are blocked, want 5: the safety limit had no effect", got)
		}
	})
}

func TestSafetyLimitCountsKeysOfCurrentMinute(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", storetest.Escalation())
		n.safetyLimit = 0.1
		n.allowed("k:first", 1)
		n.flush() // a node that has just started, and has flushed a sketch
		for i := range 200 {
			n.allowed("k:good"+strconv.Itoa(i), 1)
		}
		for i := range 15 {
			n.limited("k:bad"+strconv.Itoa(i), 10)
		}
		n.flush()
		if got := len(automaticBlocks(t, f.Store)); got != 15 {
			pauses, err := f.Offences.EscalationPauses(t.Context())
			t.Errorf("%d keys were blocked, want 15; %+v, %v", got, pauses, err)
		}
		points, err := f.Offences.Traffic(t.Context(), 7, f.Clock.Now().Truncate(time.Minute), f.Clock.Now().Add(time.Minute), time.Minute)
		if err != nil || len(points.Points) != 1 || points.Points[0].Keys < 205 || points.Points[0].Keys > 230 {
			t.Errorf("got the current minute %+v, %v, want 205 to 230 keys", points, err)
		}
		m := newCounting(t, f.Offences, f.Clock, "b", nil) // the node started again within the minute
		for i := range 40 {
			m.allowed("k:later"+strconv.Itoa(i), 1)
		}
		m.flush()
		if points, err = f.Offences.Traffic(t.Context(), 7, f.Clock.Now().Truncate(time.Minute), f.Clock.Now().Add(time.Minute), time.Minute); err != nil || points.Points[0].Keys < 245 || points.Points[0].Keys > 270 {
			t.Errorf("got the current minute %+v, %v after another start, want 245 to 270 keys", points, err)
		}
	})
}

// One attacker may have all addresses of an IPv6 /48 or an IPv4 /24. Using many of them
// pauses no escalation, and the blocks of them use little of what it may block.
func TestSafetyLimitCountsNetworkOfOneAttackerOnce(t *testing.T) {
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
			if got := len(automaticBlocks(t, f.Store)); got != want {
				pauses, err := f.Offences.EscalationPauses(t.Context())
				t.Fatalf("%d keys were blocked, want %d; %+v, %v", got, want, pauses, err)
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
		pauses, err := f.Offences.EscalationPauses(t.Context())
		if err != nil || len(pauses) != 1 || pauses[0].WouldBlock != 11 || pauses[0].Allowed != 10 || pauses[0].Seen > 11 {
			t.Errorf("got the pauses %+v, %v", pauses, err)
		}
	})
}

// Nodes of the previous release count every key separately, and write no units.
func TestSafetyLimitCountsRowsOfPreviousRelease(t *testing.T) {
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
		if got := len(automaticBlocks(t, f.Store)); got != 16 {
			pauses, err := f.Offences.EscalationPauses(t.Context())
			t.Errorf("%d keys were blocked, want 16; %+v, %v", got, pauses, err)
		}
	})
}
