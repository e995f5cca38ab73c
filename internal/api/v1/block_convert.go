package v1

import (
	"time"

	"github.com/stint-dev/stint/internal/blocks"
)

// FromBlock returns a block as the API shows it at an instant. policy names the
// policy of an automatic block, "" for another.
func FromBlock(b *blocks.Block, policy string, now time.Time) Block {
	out := Block{
		ID: b.ID, Pattern: b.Pattern.String(), Reason: b.Reason, Author: b.Author, Source: string(b.Source),
		Policy: NullString(policy), Active: b.ActiveAt(now), CreatedAt: At(b.Created), ExpiresAt: At(b.Expires),
		LiftedAt: At(b.Lifted), LiftedBy: NullString(b.LiftedBy), Revision: b.Revision,
	}
	if b.Level > 0 {
		out.Level = &b.Level
	}
	return out
}

// FromExemption returns an exemption as the API shows it at an instant.
func FromExemption(e *blocks.Exemption, now time.Time) Exemption {
	return Exemption{
		ID: e.ID, Pattern: e.Pattern.String(), Reason: e.Reason, Author: e.Author, Active: e.ActiveAt(now),
		CreatedAt: At(e.Created), ExpiresAt: At(e.Expires), RemovedAt: At(e.Removed),
		RemovedBy: NullString(e.RemovedBy), Revision: e.Revision,
	}
}
