package catalog

import (
	"context"
	"errors"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/profiles"
)

// Position is the position in the changes of a database up to which it was read.
type Position struct {
	Revision int64
	// Server differs between a database server and one that replaces it after a failover. It
	// changes when the server starts. 0 if there can be only one.
	Server int64
}

// ErrOtherHistory is returned by a Source whose database is not the one of the position, or lacks
// changes that were read earlier, as after a failover to a replica or the restore of a backup.
var ErrOtherHistory = errors.New("the database has another history")

// Source is the part of the database that the catalog reads.
type Source interface {
	// EachChange calls apply with all changes after a position, in one consistent view. After the
	// zero position it passes everything that is active. It does not call apply if nothing has
	// changed. ErrOtherHistory means that everything must be read again.
	EachChange(ctx context.Context, since Position, apply func(Changes) error) error
}

// read applies the changes of c's source since the last read, and returns nil if there are none. It
// calls goesOn while it reads.
func read(ctx context.Context, c *Catalog, goesOn func()) (changed *Changed, err error) {
	since := Position{c.revision.Load(), c.server}
	v := view{c.blocks.Load(), *c.tokens.Load(), c.profiles.Load(), false, goesOn}
	if !c.known {
		// Use an empty set: what an earlier attempt read before it failed may have ended since
		// then, and reading everything does not return ended entries.
		since, v = Position{}, view{blocks.NewSet(), nil, profiles.NewSet(), true, goesOn}
	}
	err = c.source.EachChange(ctx, since, func(ch Changes) error {
		c.server = ch.Server
		what, err := c.apply(ch, v)
		changed = what
		return err
	})
	return changed, err
}
