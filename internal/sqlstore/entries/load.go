package entries

import (
	"iter"
	"sync"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

var (
	// The plus and the appended text keep the planner from using indexes: nearly every row is
	// needed.
	loadActive = `SELECT ` + EntryFields + ` FROM entries WHERE place || '' = scope AND +expires_at > $1`
	loadSince  = `SELECT ` + EntryFields + ` FROM entries WHERE revision > $1`
)

// Changes iterates over the entries that changed since a revision, ended ones included. For 0
// it iterates over all active entries. It runs no query if count is 0.
func (t Tx) Changes(since, count int64) iter.Seq2[*blocks.Entry, error] {
	return func(yield func(*blocks.Entry, error) bool) {
		if count == 0 {
			return
		}
		query, arg := loadActive, db.ToMS(t.Now)
		if since > 0 {
			query, arg = loadSince, since
		}
		for e, err := range db.Rows(t.Tx, new(EntryScanner).Scan, query, arg) {
			if err == nil && e.Pattern.IsZero() {
				t.reportUnreadable(e)
				continue
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// reported contains the ids of the unreadable entries that were logged.
var reported sync.Map

// reportUnreadable logs, once per process, that an active entry has no effect because this
// version refuses its pattern. The other entries are still loaded.
func (t Tx) reportUnreadable(e *blocks.Entry) {
	if _, before := reported.LoadOrStore(e.ID, true); !before && e.End == nil {
		db.LogOf(t.Tx).Error("an entry has no effect, since its pattern cannot be read; end it and add another", "kind", e.Kind, "id", e.ID, "pattern", e.Pattern.String())
	}
}
