package entries

import (
	"context"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

// filterSelection returns the conditions of f, without its cursor.
func filterSelection(f blocks.Filter) (*db.Selection, error) {
	q := &db.Selection{}
	// Kinds are literals, so that the planner can use partial indexes.
	switch f.Kind {
	case "":
	case blocks.Block:
		q.And("kind = 'block'")
	case blocks.Exemption:
		q.And("kind = 'exemption'")
	default:
		return nil, fault.Field("kind", "must be block or exemption")
	}
	at := db.ToMS(f.At)
	expiry := "expires_at"
	if f.Order != blocks.ByExpiry && f.Within.IsZero() {
		// The plus keeps SQLite from sorting all active entries by creation time when the
		// newest are requested.
		expiry = "+" + expiry
	}
	switch f.State {
	case "", "active":
		q.And("place = scope AND ended_at = 0 AND "+expiry+" > ?", at)
	case "ended":
		q.And("(ended_at <> 0 OR expires_at <= ?)", at)
	case "all":
	default:
		return nil, fault.Field("state", "must be active, ended or all")
	}
	for field, text := range map[string]string{"source": f.Holder, "author": f.Author, "search": f.Search} {
		if err := db.CheckText(field, text); err != nil {
			return nil, err
		}
	}
	switch f.Source {
	case "":
	case blocks.Automatic: // a literal as well
		q.And("source = 'automatic'")
	default:
		q.And("source = ?", string(f.Source))
	}
	if f.HidesLists() {
		q.And("source <> 'list'")
	}
	if f.Holder != "" {
		q.And("(source_name = ? AND source_name <> '' OR source_name = '' AND author = ? OR id IN (SELECT entry_id FROM entry_sources WHERE name = ?))", f.Holder, f.Holder, f.Holder)
	}
	if f.Author != "" {
		q.And("(author = ? OR id IN (SELECT entry_id FROM entry_sources WHERE author = ?))", f.Author, f.Author)
	}
	if f.Search != "" {
		// One comparison per row, over both texts joined by a line break, takes little more
		// than half the time of two. Patterns and reasons contain no line break, so no match
		// spans both.
		q.And("lower(pattern || '\n' || reason) LIKE ? ESCAPE '\\'", db.LikeContaining(f.Search))
	}
	if !f.Key.IsZero() {
		spellings := keys.Selecting(f.Key)
		args := make([]any, len(spellings))
		for i, spelling := range spellings {
			args[i] = spelling
		}
		q.And("pattern IN ("+strings.TrimSuffix(strings.Repeat("?,", len(args)), ",")+")", args...)
	}
	within(q, f.Within)
	return q, nil
}

// within selects the patterns that p covers.
func within(q *db.Selection, p keys.Pattern) {
	switch p.Kind() {
	case keys.Exact, keys.FromOrigin:
		q.And("pattern = ?", p.String())
	case keys.Prefix:
		// An escaped spelling is a prefix of another exactly if the literal is.
		spelling := strings.TrimSuffix(p.String(), "*")
		q.And("pattern >= ? AND pattern < ?", spelling, db.AfterPrefix(spelling))
	case keys.Network:
		low, high := db.NetworkBounds(p)
		q.And("low >= ? AND low <= ? AND high <= ?", low, high, high)
		if network, _ := p.Network(); network.Addr().Is6() { // IPv4 is not part of IPv6
			q.And("NOT (low >= ? AND high <= ?)", db.MappedLow, db.MappedHigh)
		}
	}
}

// page reads one page of entries.
func (t Tx) page(f blocks.Filter, limit int, counted bool) (page paging.Page[*blocks.Entry], err error) {
	if f.At.IsZero() {
		f.At = t.Now
	}
	q, err := filterSelection(f)
	if err != nil {
		return page, err
	}
	using := ""
	switch {
	case !f.Key.IsZero():
		using = db.Using(t.Tx, "entries_pattern")
	case f.State == "ended" && f.Kind != "":
		if using, err = t.selectFewEnded(q, f); err != nil {
			return page, err
		}
	}
	// Without the cursor, and with any index: this query counts the matches.
	selected, selectedBy := strings.Replace(q.String(), "+expires_at", "expires_at", 1), q.Args
	if f.Order == "" {
		f.Order = blocks.ByCreated
	}
	order, err := startAt(q, f)
	if err != nil {
		return page, err
	}
	all, err := db.Each(t.Tx, new(EntryScanner).Scan, `SELECT `+EntryFields+` FROM entries`+using+` WHERE `+q.String()+order+" LIMIT "+strconv.Itoa(limit+1), q.Args...)
	page.Items, page.Next = db.CutPage(all, limit, func(last *blocks.Entry) string {
		return blocks.PositionOf(last).Cursor(f.Order)
	})
	switch {
	case err != nil || !counted:
	case f.Cursor == "" && page.Next == "":
		// All matches are on this page. Counting them would read every row a second time if a
		// search finds few.
		page.Total = len(page.Items)
	default:
		page.Total, page.Over, err = t.count(`SELECT 1 FROM entries`+using+` WHERE `+selected, selectedBy...)
	}
	return page, err
}

// count counts the rows of a query, up to paging.MaxCounted.
func (t Tx) count(query string, args ...any) (n int, isOver bool, err error) {
	_, err = t.One(`SELECT count(*) FROM (`+query+` LIMIT `+strconv.Itoa(paging.MaxCounted+1)+`) AS matches`, args, &n)
	return min(n, paging.MaxCounted), n > paging.MaxCounted, err
}

// selectFewEnded has q find the ended entries by the indexes of their ends, if they are few: in the order
// of creation, it would look at each active entry as well. It returns the clause of the index by which
// SQLite reads them then.
func (t Tx) selectFewEnded(q *db.Selection, f blocks.Filter) (using string, err error) {
	ended := " FROM entries WHERE kind = '" + string(f.Kind) + "' AND "
	const isEnded, isExpired = "ended_at > 0", "expires_at <= "
	_, areMany, err := t.count("SELECT 1"+ended+isEnded+" UNION ALL SELECT 1"+ended+isExpired+"$1", db.ToMS(f.At))
	if err != nil || areMany {
		return "", err
	}
	q.And("id IN (SELECT id"+ended+isEnded+" UNION ALL SELECT id"+ended+isExpired+"?)", db.ToMS(f.At))
	return db.Using(t.Tx, "sqlite_autoindex_entries_1"), nil
}

// startAt adds the cursor of f and returns the ORDER BY clause.
func startAt(q *db.Selection, f blocks.Filter) (order string, err error) {
	var at blocks.Position
	if f.Cursor != "" {
		if at, err = blocks.ParsePosition(f.Cursor, f.Order); err != nil {
			return "", err
		}
	}
	switch f.Order {
	case blocks.ByCreated: // ids sort by creation time
		if f.Cursor != "" {
			q.And("id < ?", at.ID)
		}
		return " ORDER BY id DESC", nil
	case blocks.ByExpiry:
		if f.Cursor != "" {
			q.And("(expires_at, id) > (?, ?)", at.Expires, at.ID)
		}
		return " ORDER BY expires_at, id", nil
	}
	return "", fault.Field("order", "must be created or expiry")
}

// Find implements admin.EntryStore.
func (s *Store) Find(ctx context.Context, f blocks.Filter) (page paging.Page[*blocks.Entry], err error) {
	limit, err := paging.Limit(f.Limit)
	if err != nil {
		return page, err
	}
	err = s.db.View(ctx, func(t *db.Tx) error {
		page, err = In(t).page(f, limit, !f.Uncounted)
		return err
	})
	return page, err
}
