package offences

import (
	"context"
	"errors"
	"iter"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/sqlstore/offences/memory"
)

// EachRankedPage implements admin.DetectionStore. It ranks the keys once and keeps them in a
// temporary file, so that no key is missed or given twice while counts change, and a slow reader
// holds no transaction open.
func (s *Store) EachRankedPage(ctx context.Context, query offences.Query, do func(offences.Ranking) error) error {
	if query.Sort == "" {
		query.Sort = offences.ByOffences
	}
	if _, known := rankOrders[query.Sort]; !known {
		return fault.Field("sort", badSort)
	}
	more, err := rankConditions(query)
	if err != nil {
		return err
	}
	var span offences.Span
	var kept *db.TempRows[offences.Ranked]
	defer func() {
		if kept != nil {
			kept.Close()
		}
	}()
	err = s.db.View(ctx, func(t *db.Tx) error {
		if kept != nil { // the transaction is repeated after a conflict
			kept.Close()
		}
		kept, err = db.WriteTempRows(ctx, ranked(t, s.cache, query, more, &span))
		return err
	})
	if err != nil {
		return err
	}
	page := offences.Ranking{Span: span}
	give := func() error {
		if len(page.Rows) == 0 {
			return nil
		}
		err := s.db.View(ctx, func(t *db.Tx) error {
			rollups, err := in(t).rollups()
			if err != nil {
				return err
			}
			_, segments := cover(span.From, span.To, 0, rollups)
			if err := in(t).firstAndLast(&page, segments, more); err != nil {
				return err
			}
			return in(t).untracked(&page, segments)
		})
		if err != nil {
			return err
		}
		err = do(page)
		page.Rows = nil
		return err
	}
	for row, err := range kept.All() {
		if err != nil {
			return err
		}
		if page.Rows = append(page.Rows, *row); len(page.Rows) == paging.MaxLimit {
			if err := give(); err != nil {
				return err
			}
		}
	}
	return give()
}

// errEnough ends a ranking whose reader wants no more.
var errEnough = errors.New("no more keys are wanted")

// ranked returns all keys that a query selects, in order, and sets the span that was read.
func ranked(t *db.Tx, cache *rowCache[memory.Row], query offences.Query, more *conditions, span *offences.Span) iter.Seq2[offences.Ranked, error] {
	return func(yield func(offences.Ranked, error) bool) {
		read, err := rankAll(t, cache, query, more, func(row offences.Ranked) error {
			if !yield(row, nil) {
				return errEnough
			}
			return nil
		})
		*span = read
		if err != nil && !errors.Is(err, errEnough) {
			yield(offences.Ranked{}, err)
		}
	}
}
