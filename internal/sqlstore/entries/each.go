package entries

import (
	"context"
	"iter"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/paging"
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
func (s *Store) keepSelected(ctx context.Context, f blocks.Filter) (kept *db.TempRows[blocks.Row], err error) {
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
func (t Tx) selected(f blocks.Filter) iter.Seq2[blocks.Row, error] {
	return func(yield func(blocks.Row, error) bool) {
		for {
			page, err := t.page(f, paging.MaxLimit, false)
			if err != nil {
				yield(blocks.Row{}, err)
				return
			}
			for _, e := range page.Items {
				if !yield(e.Row(), nil) {
					return
				}
			}
			if f.Cursor = page.Next; f.Cursor == "" {
				return
			}
		}
	}
}
