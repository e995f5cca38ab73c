package offences

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/rules"
)

var escalated = EscalationPolicy{Policy: 7, Name: "default", Escalation: rules.Escalation{
	Threshold: 10, Window: 5 * time.Minute, Duration: 10 * time.Minute, Factor: 2, MaxDuration: 30 * time.Minute, DecayAfter: time.Hour}}

const minutes = int64(time.Minute / time.Millisecond)

var unlimited = SafetyLimit{Allowed: math.MaxInt64}

func TestCountFrom(t *testing.T) {
	const newest = 100*60_000 + 30_000 // in the hundredth minute; the window begins with the 95th
	for _, c := range []struct {
		name            string
		ended, otherEnd int64
		want            int64
	}{
		{"no block at all", 0, 0, 95 * minutes},
		{"another block ended before the window", 0, 94 * minutes, 95 * minutes},
		{"another block ended within the window", 0, 97*minutes + 1, 98 * minutes},
		{"another block ended at the end of a minute", 0, 97 * minutes, 98 * minutes},
		{"another block ended before the escalation's own", 99 * minutes, 97 * minutes, 95 * minutes},
		{"another block ends later", 0, 200 * minutes, 201 * minutes},
		{"another block is permanent", 0, math.MaxInt64, math.MaxInt64},
	} {
		if got := escalated.CountFrom(State{Ended: c.ended}, c.otherEnd, newest); got != c.want {
			t.Errorf("%s: from minute %d, want %d", c.name, got/minutes, c.want/minutes)
		}
	}
}

// TestCountFromKeepsItsInvariants tries random states and ends of other blocks.
func TestCountFromKeepsItsInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := escalated
		l.Window = time.Duration(rapid.IntRange(1, 1440).Draw(t, "window")) * time.Minute
		newest := rapid.Int64Range(0, 1<<41).Draw(t, "newest")
		s := State{Ended: rapid.Int64Range(0, 2*newest).Draw(t, "ended"), CountsFrom: MinuteOf(rapid.Int64Range(0, 2*newest).Draw(t, "counts from"))}
		end := rapid.OneOf(rapid.Int64Range(0, 2*newest), rapid.Just(int64(math.MaxInt64))).Draw(t, "end of another's block")
		alone, from := l.CountFrom(s, 0, newest), l.CountFrom(s, end, newest)
		if alone != max(MinuteOf(newest)-l.Window.Milliseconds(), s.CountsFrom) {
			t.Fatalf("without another block CountFrom returns %d", alone)
		}
		switch {
		case from < alone:
			t.Fatal("with another block CountFrom returns an earlier minute")
		case end <= max(alone, s.Ended):
			if from != alone {
				t.Fatal("a block before the window, or within the key's own block, changes CountFrom")
			}
		case end == math.MaxInt64:
			if from != end {
				t.Fatal("after a permanent block CountFrom returns a minute")
			}
		case from <= end || from > end+MinuteMillis || from%MinuteMillis != 0:
			t.Fatalf("with a block until %d CountFrom returns %d, want the next minute", end, from)
		}
		if later := l.CountFrom(s, max(end, rapid.Int64Range(0, 2*newest).Draw(t, "a later end")), newest); later < from {
			t.Fatal("with a later end CountFrom returns an earlier minute")
		}
	})
}

func TestEscalate(t *testing.T) {
	now := time.UnixMilli(1000 * minutes)
	at := now.UnixMilli()
	shadow := escalated
	shadow.Shadow = true
	candidate := func(offences int64, state State) Candidate {
		state.Policy, state.Key = 7, "k:x"
		return Candidate{State: state, First: at, Last: at, Offences: offences}
	}
	for _, c := range []struct {
		name       string
		escalation EscalationPolicy
		limit      SafetyLimit
		given      Candidate
		step       int
		length     time.Duration // of the block, 0 for none
		events     []EscalationEventKind
	}{
		{"below the threshold", escalated, unlimited, candidate(9, State{}), 0, 0, nil},
		{"at the threshold", escalated, unlimited, candidate(10, State{}), 1, 10 * time.Minute, []EscalationEventKind{EscalationBlocked}},
		{"a second time", escalated, unlimited, candidate(10, State{Level: 1, Last: at}), 2, 20 * time.Minute, []EscalationEventKind{EscalationBlocked}},
		{"up to the maximum duration", escalated, unlimited, candidate(10, State{Level: 9, Last: at}), 10, 30 * time.Minute, []EscalationEventKind{EscalationBlocked}},
		{"after two decay periods", escalated, unlimited, candidate(10, State{Level: 3, Last: at - 125*minutes}), 2, 20 * time.Minute, []EscalationEventKind{EscalationBlocked}},
		{"quiet since its block ended", escalated, unlimited, candidate(1, State{Level: 3, Ended: at - 61*minutes}), 2, 0, nil},
		{"of a clock that is ahead", escalated, unlimited, Candidate{State: State{Key: "k:x", Level: 3, Last: at - 1}, First: at + 90*minutes, Last: at + 99*minutes}, 3, 0, nil},
		{"after an offence of a clock that was ahead", escalated, unlimited, candidate(1, State{Level: 3, Last: at + 99*minutes}), 3, 0, nil},
		{"a shadow policy", shadow, unlimited, candidate(10, State{}), 1, 0, []EscalationEventKind{EscalationWouldBlock}},
		{"the last that the limit allows", escalated, SafetyLimit{Blocked: 9, New: 1, Allowed: 10}, candidate(10, State{}), 1, 10 * time.Minute, []EscalationEventKind{EscalationBlocked}},
		{"one more than the limit allows", escalated, SafetyLimit{Blocked: 10, New: 1, Allowed: 10}, candidate(10, State{}), 0, 0, []EscalationEventKind{EscalationPaused}},
		{"of a network that is counted already", escalated, SafetyLimit{Blocked: 12, Allowed: 10}, candidate(10, State{}), 1, 10 * time.Minute, []EscalationEventKind{EscalationBlocked}},
		{"paused", escalated, SafetyLimit{Paused: true, Allowed: 10}, candidate(10, State{}), 0, 0, nil},
	} {
		r := Escalate(c.escalation, []Candidate{c.given}, c.limit, now)
		if s := r.States[0]; s.Level != c.step || s.Last != at || s.Key != "k:x" {
			t.Errorf("%s: the state is %+v", c.name, s)
		}
		if (c.length > 0) != (len(r.Blocks) == 1) || (c.length > 0 && r.Blocks[0].Until.Sub(now) != c.length) {
			t.Errorf("%s: the blocks are %+v", c.name, r.Blocks)
		}
		if fmt.Sprint(kinds(r.Events)) != fmt.Sprint(c.events) || (r.Paused != nil) != (len(c.events) == 1 && c.events[0] == EscalationPaused) {
			t.Errorf("%s: the events are %+v, paused %+v", c.name, r.Events, r.Paused)
		}
	}
}

// The first levels of an escalation may challenge.
func TestFirstLevelsChallenge(t *testing.T) {
	now := time.UnixMilli(1000 * minutes)
	l := escalated
	l.ChallengeLevels = 2
	for level, want := range []bool{true, true, false} {
		r := Escalate(l, []Candidate{{State: State{Key: "k:x", Level: level, Last: now.UnixMilli()}, First: now.UnixMilli(), Last: now.UnixMilli(), Offences: 10}}, unlimited, now)
		if len(r.Blocks) != 1 || r.Blocks[0].Challenges != want || strings.Contains(r.Blocks[0].Reason, "challenge") != want {
			t.Errorf("after %d blocks: got %+v", level, r.Blocks)
		}
	}
}

func kinds(all []EscalationEvent) (kinds []EscalationEventKind) {
	for _, e := range all {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// The reason of a block is all that a notification and a list of escalations say of it.
func TestEscalateNamesTheScopeOfABlock(t *testing.T) {
	l := escalated
	for scope, want := range map[string]string{
		"":      "12 offences within 5 min under the policy default: level 1, for 10 min.",
		"login": "12 offences within 5 min under the policy default: level 1, for 10 min, in the scope login only.",
	} {
		l.Scope = scope
		r := Escalate(l, []Candidate{{State: State{Key: "token:a"}, Offences: 12}}, unlimited, time.UnixMilli(1_790_000_000_000))
		if len(r.Blocks) != 1 || r.Blocks[0].Reason != want || r.Events[0].Detail != want {
			t.Errorf("scope %q: got %+v, want %q", scope, r, want)
		}
	}
}

// TestEscalateKeepsItsInvariants tries random policies, states and
// limits.
func TestEscalateKeepsItsInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.UnixMilli(rapid.Int64Range(1_000_000, 1<<41).Draw(t, "now"))
		at := now.UnixMilli()
		block := time.Duration(rapid.Int64Range(1, 1_000_000).Draw(t, "block")) * time.Millisecond
		l := EscalationPolicy{Policy: 7, Name: "default", Shadow: rapid.Bool().Draw(t, "shadow"), Escalation: rules.Escalation{
			Threshold: rapid.IntRange(1, 20).Draw(t, "threshold"), Window: time.Duration(rapid.IntRange(1, 60).Draw(t, "window")) * time.Minute,
			Duration: block, MaxDuration: block * time.Duration(rapid.IntRange(1, 100).Draw(t, "cap")), Factor: rapid.Float64Range(1, 10).Draw(t, "factor"),
			DecayAfter: time.Duration(rapid.IntRange(1, 10_000).Draw(t, "decay")) * time.Second}}
		limit := SafetyLimit{Paused: rapid.Bool().Draw(t, "paused"), Blocked: rapid.Int64Range(0, 30).Draw(t, "blocked"), New: rapid.Int64Range(0, 30).Draw(t, "new"), Allowed: rapid.Int64Range(0, 60).Draw(t, "allowed")}
		given := make([]Candidate, rapid.IntRange(0, 30).Draw(t, "candidates"))
		for i := range given {
			last := rapid.Int64Range(0, at).Draw(t, "last")
			given[i] = Candidate{First: rapid.Int64Range(0, last).Draw(t, "first"), Last: last, Offences: rapid.Int64Range(0, 40).Draw(t, "offences"),
				From: rapid.Int64Range(0, 2*at).Draw(t, "from"),
				State: State{Policy: 7, Key: "k:" + strconv.Itoa(i), Level: rapid.IntRange(0, 20).Draw(t, "step"),
					Ended: rapid.Int64Range(0, at).Draw(t, "ended"), Last: rapid.Int64Range(0, at).Draw(t, "was last"), BlockID: "before"}}
		}
		before := fmt.Sprint(given)
		r := Escalate(l, given, limit, now)
		if fmt.Sprint(given) != before || !reflect.DeepEqual(Escalate(l, given, limit, now), r) {
			t.Fatal("Escalate changed its arguments, or returns another result a second time")
		}
		reached := 0
		for _, c := range given {
			if c.Offences >= int64(l.Threshold) {
				reached++
			}
		}
		goes := reached > 0 && !limit.Paused && (limit.New == 0 || limit.Blocked+limit.New <= limit.Allowed)
		if (r.Paused != nil) != (reached > 0 && !limit.Paused && !goes) {
			t.Fatalf("%d of %d reached the threshold under %+v: paused %+v", reached, len(given), limit, r.Paused)
		}
		if !goes {
			reached = 0
		}
		if l.Shadow && len(r.Blocks) > 0 || !l.Shadow && len(r.Blocks) != reached {
			t.Fatalf("%d blocks for %d keys", len(r.Blocks), reached)
		}
		if goes && len(r.Events) != reached || len(r.States) != len(given) {
			t.Fatalf("%d events for %d keys, %d states of %d", len(r.Events), reached, len(r.States), len(given))
		}
		for i, s := range r.States {
			c := given[i]
			quiet := c.State
			quiet.Offend(&l, c.First, c.Last, at)
			if c.From > l.WindowStart(c.Newest(at)) {
				quiet.CountsFrom = min(c.From, MinuteOf(at)+MinuteMillis)
			}
			if !goes || c.Offences < int64(l.Threshold) {
				if s != quiet {
					t.Fatalf("%+v became %+v without reaching the threshold", c, s)
				}
				continue
			}
			length := time.Duration(s.Ended-at) * time.Millisecond
			if s.CountsFrom != MinuteOf(at) || s.Level != quiet.Level+1 || s.BlockID != "" || length < min(l.Duration, l.MaxDuration).Truncate(time.Millisecond) || length > l.MaxDuration {
				t.Fatalf("%+v became %+v", c, s)
			}
		}
		for _, b := range r.Blocks {
			if !b.Until.After(now) && l.Duration >= time.Millisecond {
				t.Fatalf("the block %+v has ended at %s", b, now)
			}
		}
	})
}
