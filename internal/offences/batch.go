package offences

import (
	"time"
)

// Batch is what one flush writes: amounts to add, in the order of their rows'
// keys, so that two nodes that write the same rows never wait for each other
// in a circle.
type Batch struct {
	// ID makes writing it twice harmless: a batch whose commit was lost on the
	// way is given again under the same id.
	ID       string
	Node     string
	Offences []Offence
	Totals   []Totals
	Keys     []KeyTraffic
	Distinct []DistinctKeys
	Samples  []SampleChunk
}

// Rows returns how many rows the batch holds.
func (b *Batch) Rows() int {
	return len(b.Offences) + len(b.Totals) + len(b.Keys) + len(b.Distinct) + len(b.Samples)
}

// Evaluation is what a flush evaluates escalations by.
type Evaluation struct {
	Escalations map[int64]EscalationPolicy // by policy
	// SafetyLimit is the part that an escalation may block; see AllowedBlocks.
	SafetyLimit float64
	// Exempt reports keys that never escalate, nil for none.
	Exempt func(key string) bool
	Now    time.Time
}
