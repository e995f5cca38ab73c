// Package offences contains the types and rules for refused checks: the counts that nodes
// record, queries over them, the ids of refusals, and the escalations that block offenders
// automatically. It reads no clock and no store.
//
// An offence is one refused check, or one report that did not fit into a full limit, whatever its
// cost. Totals count checks and have the cost separately.
package offences

import (
	"time"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/rules"
)

// Kind is how an offence was refused.
type Kind int

// The kinds of offence. A Shadow offence was allowed, but a shadow policy would have limited it.
const (
	Limited Kind = iota
	Blocked
	Shadow
)

var kindNames = [...]string{Limited: "limited", Blocked: "blocked", Shadow: "shadow"}

// KindCount is the number of kinds.
const KindCount = len(kindNames)

// String returns the name of the kind in the API.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return "unknown"
	}
	return kindNames[k]
}

// Refusal is one refused check, or one report that did not fit into a full limit. Its times are Unix milliseconds.
type Refusal struct {
	At       int64
	Boundary int64 // the logged time that had to leave the window of the rule, 0 for none
	RetryAt  int64 // 0: waiting would not have helped
	Source   string
	Meta     map[string]string
	// Met are the conditions of the policy that the request met; nil if the policy has none, and
	// for most refusals but the first of a minute.
	Met []conditions.Met
}

// Offence is the refusals of one key in one minute, under one policy, by one rule or block and
// from one source. It is either what is stored or what is to be added to it.
type Offence struct {
	Minute    int64  // Unix milliseconds of its beginning
	Policy    int64  // 0 for none
	Key       string // "" for offences that are aggregated as `other`
	MAC       [MACSize]byte
	Kind      Kind
	RefusedBy string // the rule, such as "20/1m", or the block's id; "other"
	Source    string // who asked, "" if it is unknown or not counted separately
	// Count is certain. Overcount is how many further offences, which are counted in `other`, the
	// key may have. It is 0 unless a flood of keys exceeded the recorder's memory.
	Count, Overcount int64
	First, Last      Refusal
}

// Merge adds p to o.
func (o *Offence) Merge(p *Offence) {
	o.Count += p.Count
	o.Overcount += p.Overcount
	if p.First.At < o.First.At {
		o.First = p.First
	}
	if p.Last.At >= o.Last.At {
		o.Last = p.Last
	}
}

// IsByTrap reports whether a rule refused that allows nothing, which is the rule of a trap.
func (o *Offence) IsByTrap() bool {
	r, err := rules.ParseRule(o.RefusedBy)
	return o.Kind != Blocked && err == nil && r.Limit == 0
}

// Other is the RefusedBy of the row for all offences of a minute, policy and kind that have no
// row of their own.
const Other = "other"

// Counts are exact numbers of checks. CostAllowed is the total cost of the allowed checks.
type Counts struct {
	Allowed, Limited, Blocked, Challenged, Unavailable int64
	// The decisions of a shadow policy. ShadowLimited includes checks that it would have refused
	// because of an outage.
	ShadowAllowed, ShadowLimited int64
	CostAllowed                  int64
	// Untracked is the part of Allowed that belongs to keys without a row of their own.
	Untracked int64
}

// Checks returns the number of checks that were answered.
func (c Counts) Checks() int64 {
	return c.Allowed + c.Limited + c.Blocked + c.Challenged + c.Unavailable
}

// Refused returns the number of offences.
func (c Counts) Refused() int64 { return c.Limited + c.Blocked + c.Challenged }

// Add adds o to c.
func (c *Counts) Add(o Counts) {
	c.Allowed += o.Allowed
	c.Limited += o.Limited
	c.Blocked += o.Blocked
	c.Challenged += o.Challenged
	c.Unavailable += o.Unavailable
	c.ShadowAllowed += o.ShadowAllowed
	c.ShadowLimited += o.ShadowLimited
	c.CostAllowed += o.CostAllowed
	c.Untracked += o.Untracked
}

// Totals are the counts of one minute and policy.
type Totals struct {
	Minute, Policy int64
	Counts
}

// KeyTraffic is the traffic of one of the heaviest keys in one minute under a policy.
type KeyTraffic struct {
	Minute, Policy int64
	Key            string
	Allowed        int64
	Refused        int64
	Cost           int64 // of the allowed checks
	Overcount      int64 // maximum number of further checks
}

// Merge adds more to k.
func (k *KeyTraffic) Merge(more *KeyTraffic) {
	k.Allowed += more.Allowed
	k.Refused += more.Refused
	k.Cost += more.Cost
	k.Overcount += more.Overcount
}

// DistinctKeys are sketches of the keys that one node saw in a minute under a policy. Sketches of
// several nodes and minutes can be merged.
type DistinctKeys struct {
	Minute, Policy int64
	Node           string
	Sketch         []byte
	// Units is a sketch of the safety units of the keys; see SafetyUnit.
	Units []byte
}

// MinuteOf returns the beginning of the minute that contains a time, both in Unix milliseconds.
func MinuteOf(ms int64) int64 { return ms - mod(ms, MinuteMillis) }

func mod(a, b int64) int64 { return ((a % b) + b) % b }

// MinuteMillis is the length of a minute in milliseconds.
const MinuteMillis = int64(time.Minute / time.Millisecond)
