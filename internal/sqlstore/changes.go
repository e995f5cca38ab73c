package sqlstore

import (
	"context"
	"iter"

	"github.com/stint-dev/stint/internal/catalog"
)

var _ catalog.Source = (*Store)(nil)

// whatChanged asks at once what else would be a question each, since nearly
// every change touches one of these.
const whatChanged = `SELECT value,
	(SELECT count(*) FROM settings WHERE revision > $1),
	(SELECT count(*) FROM policies WHERE revision > $1),
	(SELECT count(*) FROM tokens WHERE revision > $1),
	(SELECT count(*) FROM blocks WHERE revision > $1),
	(SELECT count(*) FROM exemptions WHERE revision > $1)
FROM revision WHERE id = 1`

// touched says how many rows of each kind have changed.
type touched struct{ settings, policies, tokens, blocks, exemptions int64 }

// EachChange implements catalog.Source. One transaction reads everything, so
// that what apply gets is the database as it was at Changes.Revision.
func (s *Store) EachChange(ctx context.Context, since int64, apply func(catalog.Changes) error) error {
	return s.view(ctx, func(t *tx) error {
		ch, what, err := t.whatChanged(since)
		if err != nil || ch.Revision == since {
			return err
		}
		if what.settings > 0 {
			if ch.Settings, err = t.settings(); err != nil {
				return err
			}
		}
		if ch.PoliciesChanged = what.policies > 0; ch.PoliciesChanged {
			all, err := t.policies()
			if err != nil {
				return err
			}
			ch.Policies = plainPolicies(all)
		}
		if what.tokens > 0 {
			if ch.Tokens, err = t.tokensSince(since); err != nil {
				return err
			}
		}
		ch.Blocks = mapSeq(t.itemChanges(blockShelf, since, what.blocks), blockOf)
		ch.Exemptions = mapSeq(t.itemChanges(exemptionShelf, since, what.exemptions), exemptionOf)
		return apply(ch)
	})
}

// whatChanged reads the revision and what has changed since; since 0 is
// everything.
func (t *tx) whatChanged(since int64) (ch catalog.Changes, what touched, err error) {
	if since == 0 {
		_, err = t.one(readRevision, nil, &ch.Revision)
		return ch, touched{1, 1, 1, 1, 1}, err
	}
	_, err = t.one(whatChanged, []any{since}, &ch.Revision, &what.settings, &what.policies, &what.tokens, &what.blocks, &what.exemptions)
	return ch, what, err
}

// itemChanges ranges over all that is active for since 0, and else over all
// that changed, what ended included. It asks nothing where count says that
// nothing did.
func (t *tx) itemChanges(s *shelf, since, count int64) iter.Seq2[*item, error] {
	if count == 0 {
		return func(func(*item, error) bool) {}
	}
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
