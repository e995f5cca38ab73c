package catalog

import (
	"context"
	"errors"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/profiles"
)

// Position is how far a database has been read.
type Position struct {
	Revision int64
	// Server differs between a database server and one that has taken over from it, and
	// changes when it starts; 0 where there is but one.
	Server int64
}

// ErrOtherHistory is returned by a Source whose database is not the one of the position,
// or one that lacks changes that were read: a replica that has taken over, or a backup.
var ErrOtherHistory = errors.New("the database has another history")

// Source is the database as the catalog reads it.
type Source interface {
	// EachChange calls apply with all that has changed beyond a position,
	// in one consistent view; beyond the zero one is everything that is active. It does
	// not call apply where nothing has changed. ErrOtherHistory says that everything must
	// be read again.
	EachChange(ctx context.Context, since Position, apply func(Changes) error) error
}

// read has c take over what its source has beyond what is known, and returns nil where that is
// nothing.
func read(ctx context.Context, c *Catalog) (changed *Changed, err error) {
	since := Position{c.revision.Load(), c.server}
	v := view{c.blocks.Load(), *c.tokens.Load(), c.profiles.Load(), false}
	if !c.known {
		// Into an empty set: what an attempt that broke off had read may have
		// ended since, and reading everything does not return what has ended.
		since, v = Position{}, view{blocks.NewSet(), nil, profiles.NewSet(), true}
	}
	err = c.source.EachChange(ctx, since, func(ch Changes) error {
		c.server = ch.Server
		what, err := c.apply(ch, v)
		changed = what
		return err
	})
	return changed, err
}
