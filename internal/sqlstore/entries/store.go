package entries

import (
	"context"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/wire"
)

// Store implements admin.EntryStore, which says what its methods do.
type Store struct{ db *db.DB }

// New returns the store of the blocks and exemptions in a database.
func New(d *db.DB) *Store { return &Store{d} }

// changeEntries runs a change of entries and returns its result. After an error nothing is
// changed.
func changeEntries[T any](ctx context.Context, s *Store, by audit.Actor, do func(t Tx) (T, error)) (made T, err error) {
	err = s.db.Change(ctx, by, func(t *db.Tx) error {
		made, err = do(In(t))
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return made, nil
}

// Add implements admin.EntryStore.
func (s *Store) Add(ctx context.Context, by audit.Actor, on blocks.Conflict, entries ...blocks.Entry) ([]blocks.Added, error) {
	return changeEntries(ctx, s, by, func(t Tx) (all []blocks.Added, err error) {
		for _, e := range entries {
			added, err := t.Add(e, on)
			if err != nil {
				return nil, err
			}
			all = append(all, added)
		}
		return all, t.unchangedUnlessRecorded()
	})
}

// unchangedUnlessRecorded returns errUnchanged if the transaction has changed nothing.
func (t Tx) unchangedUnlessRecorded() error {
	if t.HasRecorded() {
		return nil
	}
	return db.ErrUnchanged
}

// ByID implements admin.EntryStore.
func (s *Store) ByID(ctx context.Context, kind blocks.Kind, id string) (*blocks.Entry, error) {
	return db.Read(ctx, s.db, func(t *db.Tx) (*blocks.Entry, error) { return In(t).find(kind, id) })
}

// Update implements admin.EntryStore.
func (s *Store) Update(ctx context.Context, by audit.Actor, kind blocks.Kind, id string, p wire.EntryPatch) (*blocks.Entry, error) {
	return changeEntries(ctx, s, by, func(t Tx) (*blocks.Entry, error) { return t.update(kind, id, p) })
}

// End implements admin.EntryStore.
func (s *Store) End(ctx context.Context, by audit.Actor, kind blocks.Kind, reason string, ids ...string) ([]*blocks.Entry, error) {
	return s.changeEach(ctx, by, ids, func(t Tx, id string) (*blocks.Entry, error) { return t.end(kind, id, reason) })
}

// EndUnchanged implements admin.EntryStore.
func (s *Store) EndUnchanged(ctx context.Context, by audit.Actor, kind blocks.Kind, revision int64, ids ...string) ([]*blocks.Entry, error) {
	return s.changeEach(ctx, by, ids, func(t Tx, id string) (*blocks.Entry, error) {
		e, err := t.find(kind, id)
		if err == nil {
			err = checkRevision(e, revision)
		}
		if err != nil {
			return nil, err
		}
		return t.end(kind, id, "")
	})
}

// Restore implements admin.EntryStore.
func (s *Store) Restore(ctx context.Context, by audit.Actor, kind blocks.Kind, ids ...string) ([]*blocks.Entry, error) {
	return s.changeEach(ctx, by, ids, func(t Tx, id string) (*blocks.Entry, error) { return t.restore(kind, id) })
}

// changeEach makes the same change to several entries, all or none.
func (s *Store) changeEach(ctx context.Context, by audit.Actor, ids []string, do func(t Tx, id string) (*blocks.Entry, error)) ([]*blocks.Entry, error) {
	return changeEntries(ctx, s, by, func(t Tx) (all []*blocks.Entry, err error) {
		for _, id := range ids {
			e, err := do(t, id)
			if err != nil {
				return nil, err
			}
			all = append(all, e)
		}
		return all, t.unchangedUnlessRecorded()
	})
}

// maxArchived is how many entries one transaction archives. SQLite has one writer, and an
// imported list may expire as a whole.
const maxArchived = 2000

// EndExpired archives the blocks and exemptions that have expired at an instant and returns
// their number. Afterwards no list of active entries contains them and no starting node loads
// them. They must therefore have expired by the clock of every node.
func (s *Store) EndExpired(ctx context.Context, at time.Time) (ended int, err error) {
	return db.WriteInParts(ctx, s.db, maxArchived, giveUpAll, db.ToMS(at))
}
