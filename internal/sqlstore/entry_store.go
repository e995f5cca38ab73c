package sqlstore

import (
	"context"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
)

var _ blocks.Store = EntryStore{}

// EntryStore implements blocks.Store.
type EntryStore struct{ *backend }

// Entries returns the store of blocks and exemptions.
func (s *Store) Entries() EntryStore { return EntryStore{s.backend} }

// changeEntries runs a change of entries and returns what it made of them; an
// error leaves none.
func changeEntries[T any](ctx context.Context, s EntryStore, by audit.Actor, do func(t entryTx) (T, error)) (made T, err error) {
	err = s.change(ctx, by, func(t *tx) error {
		made, err = do(entryTx{t})
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return made, nil
}

// Add implements blocks.Store.
func (s EntryStore) Add(ctx context.Context, by audit.Actor, on blocks.Conflict, entries ...blocks.Entry) ([]blocks.Added, error) {
	return changeEntries(ctx, s, by, func(t entryTx) (all []blocks.Added, err error) {
		for _, e := range entries {
			added, err := t.add(e, on)
			if err != nil {
				return nil, err
			}
			all = append(all, added)
		}
		return all, t.unchangedUnlessRecorded()
	})
}

// unchangedUnlessRecorded returns errUnchanged where the transaction has changed
// nothing.
func (t entryTx) unchangedUnlessRecorded() error {
	if t.recorded {
		return nil
	}
	return errUnchanged
}

// ByID implements blocks.Store.
func (s EntryStore) ByID(ctx context.Context, kind blocks.Kind, id string) (e *blocks.Entry, err error) {
	err = s.view(ctx, func(t *tx) error {
		e, err = entryTx{t}.find(kind, id)
		return err
	})
	return e, err
}

// Update implements blocks.Store.
func (s EntryStore) Update(ctx context.Context, by audit.Actor, kind blocks.Kind, id string, u blocks.Update) (*blocks.Entry, error) {
	return changeEntries(ctx, s, by, func(t entryTx) (*blocks.Entry, error) { return t.update(kind, id, u) })
}

// End implements blocks.Store.
func (s EntryStore) End(ctx context.Context, by audit.Actor, kind blocks.Kind, reason string, ids ...string) ([]*blocks.Entry, error) {
	return s.changeEach(ctx, by, ids, func(t entryTx, id string) (*blocks.Entry, error) { return t.end(kind, id, reason) })
}

// Restore implements blocks.Store.
func (s EntryStore) Restore(ctx context.Context, by audit.Actor, kind blocks.Kind, ids ...string) ([]*blocks.Entry, error) {
	return s.changeEach(ctx, by, ids, func(t entryTx, id string) (*blocks.Entry, error) { return t.restore(kind, id) })
}

// changeEach makes the same change of several entries, all or none.
func (s EntryStore) changeEach(ctx context.Context, by audit.Actor, ids []string, do func(t entryTx, id string) (*blocks.Entry, error)) ([]*blocks.Entry, error) {
	return changeEntries(ctx, s, by, func(t entryTx) (all []*blocks.Entry, err error) {
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
