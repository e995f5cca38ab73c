// Package offenders counts refused checks and what stands around them, lets a
// policy's escalation block those who go on, and answers who offended, when and
// why. Counting happens on the check path in bounded memory (Recorder),
// reaches the database within two seconds (Flusher), and everything else reads
// the database (Service).
//
// An offence is one refused check whatever its cost; totals count checks and
// say the cost beside them.
package offenders

import (
	"time"

	"github.com/stint-dev/stint/internal/refusal"
)

// Kind says how an offence was refused.
type Kind int

// The kinds of offence. A Shadow one was allowed: the policy that watches
// would have limited it.
const (
	Limited Kind = iota
	Blocked
	Shadow
)

var kindNames = [...]string{Limited: "limited", Blocked: "blocked", Shadow: "shadow"}

// String returns the kind as the API spells it.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return "unknown"
	}
	return kindNames[k]
}

// Refusal is one refused check. Its times are Unix milliseconds.
type Refusal struct {
	At       int64
	Boundary int64 // the logged time that the rule waited for, 0 for none
	RetryAt  int64 // 0: waiting would not have helped
	Source   string
	Meta     map[string]string
}

// Offence is what one minute holds, or what is to be added to it, of the
// refusals of one key under one policy by one rule or block, asked for by one
// source.
type Offence struct {
	Minute  int64  // Unix milliseconds of its beginning
	Policy  int64  // 0 for none
	Key     string // "" for those that were folded together as `other`
	MAC     [refusal.MACSize]byte
	Kind    Kind
	Decider string // the rule, such as "20/1m", or the block's id; "other"
	Source  string // who asked, "" where it was not said or is not kept apart
	// Count is what is certain, and Over how many more there may have been
	// that stand in `other`. Over is 0 unless a flood of keys overran the
	// recorder's memory.
	Count, Over int64
	First, Last Refusal
}

// Merge adds p to o.
func (o *Offence) Merge(p *Offence) {
	o.Count += p.Count
	o.Over += p.Over
	if p.First.At < o.First.At {
		o.First = p.First
	}
	if p.Last.At >= o.Last.At {
		o.Last = p.Last
	}
}

// Other is the decider of the row that stands for all offences of a minute,
// policy and kind that have none of their own.
const Other = "other"

// Counts are numbers of checks, exact whatever was sent. CostAllowed sums the
// costs of the allowed ones.
type Counts struct {
	Allowed, Limited, Blocked, Unavailable int64
	// What a shadow policy would have decided.
	ShadowAllowed, ShadowLimited int64
	CostAllowed                  int64
	// Untracked of Allowed belong to keys whose traffic has no row of its own.
	Untracked int64
}

// Checks returns how many checks were answered.
func (c Counts) Checks() int64 { return c.Allowed + c.Limited + c.Blocked + c.Unavailable }

// Refused returns how many were offences.
func (c Counts) Refused() int64 { return c.Limited + c.Blocked }

// Add adds o to c.
func (c *Counts) Add(o Counts) {
	c.Allowed += o.Allowed
	c.Limited += o.Limited
	c.Blocked += o.Blocked
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

// KeyTraffic is one minute of one of the heaviest keys under a policy.
type KeyTraffic struct {
	Minute, Policy int64
	Key            string
	Allowed        int64
	Refused        int64
	Cost           int64 // of the allowed checks
	Over           int64 // at most so many more checks
}

// Merge adds more to k.
func (k *KeyTraffic) Merge(more *KeyTraffic) {
	k.Allowed += more.Allowed
	k.Refused += more.Refused
	k.Cost += more.Cost
	k.Over += more.Over
}

// DistinctKeys is a sketch of the keys that one node saw in a minute under a
// policy. Sketches of several nodes and minutes merge.
type DistinctKeys struct {
	Minute, Policy int64
	Node           string
	Sketch         []byte
}

// TraceChunk is one node's minute of the trace; see Trace.
type TraceChunk struct {
	Minute int64
	Node   string
	Level  int
	Points []byte
}

// minuteOf returns the beginning of the minute of an instant.
func minuteOf(ms int64) int64 { return ms - mod(ms, minuteMS) }

func mod(a, b int64) int64 { return ((a % b) + b) % b }

const minuteMS = int64(time.Minute / time.Millisecond)
