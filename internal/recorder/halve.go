package recorder

import (
	"time"

	"github.com/stint-dev/stint/internal/offences"
)

// halve splits a batch of at least two rows. Both halves still need an ID. The first half gets
// the sketches first: escalations are evaluated for each half, and the safety limit needs the
// number of keys by then.
func halve(b *offences.Batch) (one, other *offences.Batch) {
	one, other = &offences.Batch{Node: b.Node}, &offences.Batch{Node: b.Node}
	left := b.Rows() / 2
	one.Distinct, other.Distinct = cut(b.Distinct, &left)
	one.Offences, other.Offences = cut(b.Offences, &left)
	one.Totals, other.Totals = cut(b.Totals, &left)
	one.Keys, other.Keys = cut(b.Keys, &left)
	one.Samples, other.Samples = cut(b.Samples, &left)
	one.Breakdowns, other.Breakdowns = cut(b.Breakdowns, &left)
	return one, other
}

func cut[T any](all []T, left *int) (one, other []T) {
	n := min(*left, len(all))
	*left -= n
	return all[:n], all[n:]
}

// describeRow names the only row of a batch without quoting text from a caller.
func describeRow(b *offences.Batch) string {
	switch {
	case len(b.Offences) == 1:
		return "an offence of " + time.UnixMilli(b.Offences[0].Minute).UTC().Format(time.RFC3339)
	case len(b.Totals) == 1:
		return "totals of " + time.UnixMilli(b.Totals[0].Minute).UTC().Format(time.RFC3339)
	case len(b.Keys) == 1:
		return "a key's traffic of " + time.UnixMilli(b.Keys[0].Minute).UTC().Format(time.RFC3339)
	case len(b.Distinct) == 1:
		return "a sketch of " + time.UnixMilli(b.Distinct[0].Minute).UTC().Format(time.RFC3339)
	case len(b.Breakdowns) == 1:
		return "what was requested in " + time.UnixMilli(b.Breakdowns[0].Minute).UTC().Format(time.RFC3339)
	default:
		return "a chunk of the traffic sample"
	}
}
