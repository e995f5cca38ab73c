package offences

import (
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

// rows reads the rows of a page and the first one behind it, and returns the values that
// rank them.
func (r *ranker) rows(t *db.Tx, ranking *offences.Ranking, text string, args []any) (values []int64, err error) {
	type row struct {
		offences.Ranked
		value int64
	}
	var read int64
	var kept, keptOffences int64
	err = db.Stream(t, func(from db.Row) (k row, err error) {
		return k, from.Scan(&k.Key, &k.Offences, &k.value, &ranking.Keys, &ranking.Offences)
	}, text, args, func(k row) error {
		read++
		if r.query.Keep != nil {
			if read > offences.MaxKept || !r.query.Keep(k.Key) {
				return nil
			}
			kept++
			keptOffences += k.Offences
			behind := k.value < r.at.value || k.value == r.at.value && k.Key > r.at.key
			if r.query.Cursor != "" && !behind || len(values) > r.limit {
				return nil
			}
		}
		ranking.Rows, values = append(ranking.Rows, k.Ranked), append(values, k.value)
		return nil
	})
	if r.query.Keep != nil {
		ranking.Unread = max(0, ranking.Keys-offences.MaxKept)
		ranking.Keys, ranking.Offences = kept, keptOffences
	}
	return values, err
}
