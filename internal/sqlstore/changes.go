package sqlstore

import (
	"context"
	"iter"

	"github.com/stint-dev/stint/internal/catalog"
)

var _ catalog.Source = (*Store)(nil)

const policiesChanged = `SELECT count(*) FROM policies WHERE revision > $1`

// EachChange implements catalog.Source. One transaction reads everything, so
// that what apply gets is the database as it was at Changes.Revision.
func (s *Store) EachChange(ctx context.Context, since int64, apply func(catalog.Changes) error) error {
	return s.view(ctx, func(t *tx) error {
		var ch catalog.Changes
		if _, err := t.one(readRevision, nil, &ch.Revision); err != nil || ch.Revision == since {
			return err
		}
		settings, changed, err := t.settings()
		if err != nil {
			return err
		}
		if since == 0 || changed > since {
			ch.Settings = settings
		}
		if err := t.policyChanges(&ch, since); err != nil {
			return err
		}
		if ch.Tokens, err = t.tokensSince(since); err != nil {
			return err
		}
		ch.Blocks = mapSeq(t.itemChanges(blockShelf, since), blockOf)
		ch.Exemptions = mapSeq(t.itemChanges(exemptionShelf, since), exemptionOf)
		return apply(ch)
	})
}

func (t *tx) policyChanges(ch *catalog.Changes, since int64) error {
	var changed int
	if _, err := t.one(policiesChanged, []any{since}, &changed); err != nil {
		return err
	}
	if ch.PoliciesChanged = since == 0 || changed > 0; !ch.PoliciesChanged {
		return nil
	}
	all, err := t.policies()
	ch.Policies = plainPolicies(all)
	return err
}

// itemChanges ranges over all that is active for since 0, and else over all
// that changed, what ended included.
func (t *tx) itemChanges(s *shelf, since int64) iter.Seq2[*item, error] {
	query, arg := s.loadSince, since
	if since == 0 {
		query, arg = s.load, toMS(t.now)
	}
	return func(yield func(*item, error) bool) {
		ctx, stop := context.WithCancel(t.ctx)
		batches, failed := make(chan []item, 4), error(nil)
		go func() {
			defer close(batches)
			failed = t.readBatches(ctx, batches, query, arg)
		}()
		// The reader has left the connection when its channel is closed.
		defer func() {
			stop()
			for range batches {
			}
		}()
		for batch := range batches {
			for n := range batch {
				if !yield(&batch[n], nil) {
					return
				}
			}
		}
		if failed != nil {
			yield(nil, failed)
		}
	}
}

// loadBatch is how many rows are handed over at once.
const loadBatch = 256

// readBatches reads rows while those before are taken over elsewhere: a node
// that starts is not ready before it has read a million.
func (t *tx) readBatches(ctx context.Context, into chan<- []item, query string, arg int64) error {
	rows, err := t.sql.QueryContext(ctx, query, arg)
	if err != nil {
		return err
	}
	defer rows.Close()
	var scanner itemScanner
	batch := make([]item, 0, loadBatch)
	hand := func() error {
		select {
		case into <- batch:
			batch = make([]item, 0, loadBatch)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for rows.Next() {
		batch = append(batch, item{})
		if err := scanner.into(&batch[len(batch)-1], rows); err != nil {
			return err
		}
		if len(batch) == loadBatch {
			if err := hand(); err != nil {
				return err
			}
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return hand()
}
