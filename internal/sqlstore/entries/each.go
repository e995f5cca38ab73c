package entries

import (
	"context"
	"iter"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

// Each implements admin.EntryStore. It keeps the entries of one state of the database in a temporary
// file: a slow reader holds no transaction open, and an entry that another replaces before it is
// read is not missing.
func (s *Store) Each(ctx context.Context, f blocks.Filter) iter.Seq2[*blocks.Entry, error] {
	return func(yield func(*blocks.Entry, error) bool) {
		if f.At.IsZero() {
			f.At = s.db.LocalNow()
		}
		kept, err := s.keepSelected(ctx, f)
		if err != nil {
			yield(nil, err)
			return
		}
		defer kept.Close()
		scanner := new(EntryScanner)
		for row, err := range kept.All() {
			var e *blocks.Entry
			if err == nil {
				e, err = scanner.entry(row)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// keepSelected writes the entries that f selects to a temporary file.
func (s *Store) keepSelected(ctx context.Context, f blocks.Filter) (kept *db.TempRows[keptEntry], err error) {
	err = s.db.View(ctx, func(t *db.Tx) error {
		if kept != nil { // the transaction is repeated after a conflict
			kept.Close()
		}
		kept, err = db.WriteTempRows(ctx, In(t).selected(f))
		return err
	})
	if err != nil && kept != nil {
		kept.Close()
	}
	return kept, err
}

// selected reads the entries that f selects page by page, so that no statement takes long.
func (t Tx) selected(f blocks.Filter) iter.Seq2[keptEntry, error] {
	return func(yield func(keptEntry, error) bool) {
		for {
			page, err := t.page(f, db.MaxLimit, false)
			if err != nil {
				yield(keptEntry{}, err)
				return
			}
			for _, e := range page.Items {
				if !yield(keep(e), nil) {
					return
				}
			}
			if f.Cursor = page.Next; f.Cursor == "" {
				return
			}
		}
	}
}

// keptEntry is an entry in a temporary file. The times are as in the database.
type keptEntry struct {
	ID, Kind, Pattern, Reason, Author, Source, Scope, Action, EndedBy string
	PolicyID, Level, Revision, Created, Expires, Ended                int64
}

func keep(e *blocks.Entry) keptEntry {
	return keptEntry{
		e.ID, string(e.Kind), e.Pattern.String(), e.Reason, e.Author, string(e.Source), e.Scope, string(e.Action), e.EndedBy(),
		e.PolicyID, int64(e.Level), e.Revision, int64(e.Created), db.ExpiryToMS(e.Expires), db.ToMS(e.Ended()),
	}
}
