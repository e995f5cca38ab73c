package api

import (
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/wire"
)

// fromBlock returns a block as the API shows it at an instant. policy names the
// policy of an automatic block, "" for another.
func fromBlock(b *blocks.Block, policy string, now time.Time) wire.Block {
	out := wire.Block{
		ID: b.ID, Pattern: b.Pattern.String(), Reason: b.Reason, Author: b.Author, Source: string(b.Source),
		Policy: wire.NullString(policy), Active: b.ActiveAt(now), CreatedAt: wire.At(b.Created), ExpiresAt: wire.At(b.Expires),
		LiftedAt: wire.At(b.Lifted), LiftedBy: wire.NullString(b.LiftedBy), Revision: b.Revision,
	}
	if b.Level > 0 {
		out.Level = &b.Level
	}
	return out
}

// fromExemption returns an exemption as the API shows it at an instant.
func fromExemption(e *blocks.Exemption, now time.Time) wire.Exemption {
	return wire.Exemption{
		ID: e.ID, Pattern: e.Pattern.String(), Reason: e.Reason, Author: e.Author, Active: e.ActiveAt(now),
		CreatedAt: wire.At(e.Created), ExpiresAt: wire.At(e.Expires), RemovedAt: wire.At(e.Removed),
		RemovedBy: wire.NullString(e.RemovedBy), Revision: e.Revision,
	}
}
