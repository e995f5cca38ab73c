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
		rows, err := t.sql.QueryContext(t.ctx, query, arg)
		if err != nil {
			yield(nil, err)
			return
		}
		defer rows.Close()
		scan := itemScanner()
		for rows.Next() {
			i, err := scan(rows)
			if !yield(i, err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(nil, err)
		}
	}
}
