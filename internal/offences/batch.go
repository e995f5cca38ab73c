package offences

import (
	"time"

	"github.com/stint-dev/stint/internal/breakdown"
)

// Batch is what one flush writes: amounts to add, sorted by the keys of their rows, so that two
// nodes that write the same rows never deadlock.
type Batch struct {
	// ID makes it safe to write the batch twice: if the result of a commit was lost, the batch is
	// written again under the same id.
	ID       string
	Node     string
	Offences []Offence
	Totals   []Totals
	Keys     []KeyTraffic
	Distinct []DistinctKeys
	Samples  []SampleChunk
	// Breakdowns are what was requested, to be added to what the node counted in the same minute.
	Breakdowns []breakdown.Chunk
}

// Rows returns how many rows the batch holds.
func (b *Batch) Rows() int {
	return len(b.Offences) + len(b.Totals) + len(b.Keys) + len(b.Distinct) + len(b.Samples) + len(b.Breakdowns)
}

// Evaluation is what a flush needs to evaluate escalations.
type Evaluation struct {
	Escalations map[int64]EscalationPolicy // by policy
	// SafetyLimit is the ratio of keys that an escalation may block; see AllowedBlocks.
	SafetyLimit float64
	// Exempt reports whether a key never escalates; nil if all do.
	Exempt func(key string) bool
	Now    time.Time
}
