package api

import (
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/wire"
)

// fromEntry returns a block or exemption as the API shows it at an instant.
// policy names the policy of an automatic block, "" for another.
func fromEntry(e *blocks.Entry, policy string, now time.Time) wire.Entry {
	out := wire.Entry{
		ID: e.ID, Kind: string(e.Kind), Pattern: e.Pattern.String(), Reason: e.Reason, Author: e.Author, Source: string(e.Source),
		Policy: wire.NullString(policy), Active: e.ActiveAt(now), CreatedAt: wire.At(e.Created), ExpiresAt: wire.At(e.Expires),
		EndedAt: wire.At(e.Ended), EndedBy: wire.NullString(e.EndedBy), Revision: e.Revision,
	}
	if e.Level > 0 {
		out.Level = &e.Level
	}
	return out
}
