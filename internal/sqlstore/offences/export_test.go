package offences

import (
	"context"

	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

// RankStatement returns the query that Rank sends, for tests of its plan.
func RankStatement(s *Store, ctx context.Context, query offences.Query) (text string, args []any, err error) {
	query.Sort = offences.ByOffences
	more, err := rankConditions(query)
	if err != nil {
		return "", nil, err
	}
	err = s.db.View(ctx, func(t *db.Tx) error {
		rollups, err := in(t).rollups()
		if err != nil {
			return err
		}
		span, segments := cover(query.From, query.To, 0, rollups)
		text, args = (&ranker{query, rankCursor{}, 100, span, segments, rollups, more}).statement()
		return nil
	})
	return text, args, err
}
