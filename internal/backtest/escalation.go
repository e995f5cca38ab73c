package backtest

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
)

// blockDelay is how long after the offence that reaches the threshold its block begins:
// as long as the service takes at most.
const blockDelay = 3 * time.Second

// EscalationCount is what the escalation of one policy did.
type EscalationCount struct {
	Policy string `json:"policy"`
	// Scope is the scope of the blocks, "" for blocks of every check.
	Scope string `json:"scope,omitzero"`
	Keys  int64  `json:"keys"` // that were blocked, each once
	// DerivedKeys are the Keys that the policy counts as further keys.
	DerivedKeys int64 `json:"derived_keys,omitzero"`
	Blocks      int64 `json:"blocks"`  // a key may be blocked several times
	Refused     int64 `json:"refused"` // by these blocks
}

// escalation is the escalation of one policy of a trial.
type escalation struct {
	policy offences.EscalationPolicy
	of     *triedPolicy // of the policy itself
	states map[string]*escalated
	count  EscalationCount
}

// escalated is the state of one key under one escalation.
type escalated struct {
	state      offences.State
	minutes    []minuteCount // with offences, the oldest first
	wasBlocked bool
}

type minuteCount struct{ minute, offences int64 }

// blockedKey is what a block is about: a key, in a scope or in all of them.
type blockedKey struct{ key, scope string }

// block is the newest automatic block of a key, in Unix milliseconds.
type block struct {
	from, until int64
	by          *escalation
	challenges  bool
}

// countOffence counts an offence of a key, or of a further key, under the policy of l at the
// time of the record at hand, and blocks the key where that reaches the threshold. The
// safety limit is left out: it is about how many keys a whole site has.
func (t *trial) countOffence(l *triedPolicy, key string) {
	if network, is := offences.CountedNetwork(key); is && l.policy.Derived != nil {
		t.networks = append(t.networks, network)
	}
	e := l.escalation
	if e == nil || e.policy.NeverBlocks(key) {
		return
	}
	if k, err := offences.ParseKey(key); err == nil && t.isCrowd(k) {
		return
	}
	of := e.states[key]
	if of == nil {
		of = &escalated{state: offences.State{Policy: e.policy.Policy, Key: key}}
		e.states[key] = of
	}
	minute := offences.MinuteOf(t.now)
	if n := len(of.minutes); n == 0 || of.minutes[n-1].minute != minute {
		of.minutes = slices.DeleteFunc(of.minutes, func(m minuteCount) bool { return m.minute < e.policy.WindowStart(t.now) })
		of.minutes = append(of.minutes, minuteCount{minute: minute})
	}
	if t.now >= of.state.Ended { // as the service: only what came after the last block counts
		of.minutes[len(of.minutes)-1].offences++
	}
	others := int64(0)
	for _, scope := range []string{"", e.policy.Scope} {
		if other, found := t.blocks[blockedKey{key, scope}]; found && other.by != e {
			others = max(others, other.until)
		}
	}
	before, wasBlocked := t.blocks[blockedKey{key, e.policy.Scope}]
	candidate := offences.Candidate{State: of.state, First: t.now, Last: t.now}
	candidate.From = e.policy.CountFrom(of.state, others, t.now)
	for _, m := range of.minutes {
		if t.now >= of.state.Ended && m.minute >= candidate.From {
			candidate.Offences += m.offences
		}
	}
	result := offences.Escalate(e.policy, []offences.Candidate{candidate}, offences.SafetyLimit{Allowed: math.MaxInt64}, time.UnixMilli(t.now))
	of.state = result.States[0]
	for _, b := range result.Blocks {
		if of.minutes = nil; !of.wasBlocked {
			of.wasBlocked = true
			if e.count.Keys++; l.policy.Derived != nil {
				e.count.DerivedKeys++
			}
		}
		e.count.Blocks++
		next := block{from: t.now + blockDelay.Milliseconds(), until: b.Until.UnixMilli(), by: e, challenges: b.Challenges}
		if wasBlocked && before.until > next.from {
			next.from, next.until = min(before.from, next.from), max(before.until, next.until)
		}
		t.blocks[blockedKey{key, e.policy.Scope}] = next
	}
}

// blockedBy returns the automatic block that refuses a key in a scope, "" for none, at the time of
// the record at hand; false for none.
func (t *trial) blockedBy(key, scope string) (block, bool) {
	b, found := t.blocks[blockedKey{key, ""}]
	if (!found || b.from > t.now || t.now >= b.until) && scope != "" {
		b, found = t.blocks[blockedKey{key, scope}]
	}
	return b, found && b.from <= t.now && t.now < b.until
}

// endBlocks ends the automatic blocks of a key.
func (t *trial) endBlocks(k keys.Key) {
	maps.DeleteFunc(t.blocks, func(of blockedKey, _ block) bool { return of.key == k.String() })
}

func (t *trial) escalationCounts() []EscalationCount {
	var all []EscalationCount
	for _, l := range t.triedPolicies {
		if l.escalation != nil && l.policy.Derived == nil {
			all = append(all, l.escalation.count)
		}
	}
	slices.SortStableFunc(all, func(a, b EscalationCount) int { return cmp.Compare(b.Blocks, a.Blocks) })
	return all
}
