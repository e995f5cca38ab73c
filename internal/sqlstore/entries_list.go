package sqlstore

import (
	"context"
	"encoding/base64"
	"iter"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
)

// selection builds the WHERE of a listing.
type selection struct {
	clauses []string
	args    []any
}

// and adds a clause, in which each ? stands for the next of args.
func (q *selection) and(clause string, args ...any) {
	var b strings.Builder
	for _, c := range clause {
		if c != '?' {
			b.WriteRune(c)
			continue
		}
		q.args = append(q.args, args[0])
		args = args[1:]
		b.WriteString("$" + strconv.Itoa(len(q.args)))
	}
	q.clauses = append(q.clauses, b.String())
}

func (q *selection) String() string {
	if len(q.clauses) == 0 {
		return "1 = 1"
	}
	return strings.Join(q.clauses, " AND ")
}

const (
	defaultLimit = 100
	largestLimit = 1000
)

func pageLimit(limit int) (int, error) {
	switch {
	case limit == 0:
		return defaultLimit, nil
	case limit < 0 || limit > largestLimit:
		return 0, fault.Field("limit", "must be 1 to %d", largestLimit)
	}
	return limit, nil
}

// holding returns the LIKE pattern for text inside a text, without the case of
// ASCII letters, which is all that both databases fold alike.
func holding(text string) string {
	lower := strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
	return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(lower) + "%"
}

// filterSelection returns what f selects, without its cursor.
func filterSelection(f blocks.Filter) (*selection, error) {
	q := &selection{}
	// Kinds are literals, so that the planner can use indexes that depend on them.
	switch f.Kind {
	case "":
	case blocks.Block:
		q.and("kind = 'block'")
	case blocks.Exemption:
		q.and("kind = 'exemption'")
	default:
		return nil, fault.Field("kind", "must be block or exemption")
	}
	at := toMS(f.At)
	switch f.State {
	case "", "active":
		q.and("ended_at = 0 AND expires_at > ?", at)
	case "ended":
		q.and("(ended_at <> 0 OR expires_at <= ?)", at)
	case "all":
	default:
		return nil, fault.Field("state", "must be active, ended or all")
	}
	for field, text := range map[string]string{"source": string(f.Source), "author": f.Author, "search": f.Search} {
		if err := checkText(field, text); err != nil {
			return nil, err
		}
	}
	if f.Source != "" {
		q.and("source = ?", string(f.Source))
	}
	if f.Author != "" {
		q.and("author = ?", f.Author)
	}
	if f.Search != "" {
		// One comparison a row, over both texts with a line between them, takes
		// little more than half the time of two. No pattern and no reason holds
		// a line break, so that nothing is found across it.
		q.and("lower(pattern || '\n' || reason) LIKE ? ESCAPE '\\'", holding(f.Search))
	}
	if !f.Key.IsZero() {
		spellings := keys.Selecting(f.Key)
		args := make([]any, len(spellings))
		for i, spelling := range spellings {
			args[i] = spelling
		}
		q.and("pattern IN ("+strings.TrimSuffix(strings.Repeat("?,", len(args)), ",")+")", args...)
	}
	within(q, f.Within)
	return q, nil
}

// within selects the patterns that p covers.
func within(q *selection, p keys.Pattern) {
	switch p.Kind() {
	case keys.Exact:
		q.and("pattern = ?", p.String())
	case keys.Prefix:
		// An escaped spelling begins with another exactly when the literals do.
		spelling := strings.TrimSuffix(p.String(), "*")
		q.and("pattern >= ? AND pattern < ?", spelling, after(spelling))
	case keys.Network:
		low, high := bounds(p)
		q.and("low >= ? AND low <= ? AND high <= ?", low, high, high)
		if network, _ := p.Network(); network.Addr().Is6() { // IPv4 is no part of IPv6
			q.and("NOT (low >= ? AND high <= ?)", mappedLow, mappedHigh)
		}
	}
}

// after returns the first text, bytewise, behind all that begin with prefix.
func after(prefix string) string {
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		switch {
		case last == utf8.MaxRune:
			continue // nothing is behind it: move the rune before
		case last == 0xD7FF: // surrogates are no text
			last = 0xDFFF
		}
		return prefix + string(last+1)
	}
	return string(utf8.MaxRune)
}

// position is where a page ended.
type position struct {
	expires int64 // ByExpiry only
	id      string
}

const badCursor = "is not a cursor of this list; leave it out to begin at the first page"

func (p position) cursor(order blocks.Order) string {
	return base64.RawURLEncoding.EncodeToString([]byte(string(order) + " " + strconv.FormatInt(p.expires, 10) + " " + p.id))
}

func parseCursor(text string, order blocks.Order) (position, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	parts := strings.Split(string(raw), " ")
	if err != nil || len(parts) != 3 || parts[0] != string(order) {
		return position{}, fault.Field("cursor", badCursor)
	}
	expires, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || uuid.Validate(parts[2]) != nil {
		return position{}, fault.Field("cursor", badCursor)
	}
	return position{expires, parts[2]}, nil
}

// page reads one page of entries.
func (t entryTx) page(f blocks.Filter, limit int, counted bool) (page blocks.Page, err error) {
	if f.At.IsZero() {
		f.At = t.now
	}
	q, err := filterSelection(f)
	if err != nil {
		return page, err
	}
	selected, selectedBy := q.String(), q.args // without the cursor
	if f.Order == "" {
		f.Order = blocks.ByCreated
	}
	order, err := q.startAt(f)
	if err != nil {
		return page, err
	}
	// One more than the page tells whether there is another.
	page.Items, err = each(t.tx, new(entryScanner).scan, `SELECT `+entryFields+` FROM entries WHERE `+q.String()+order+" LIMIT "+strconv.Itoa(limit+1), q.args...)
	if err == nil && len(page.Items) > limit {
		page.Items = page.Items[:limit]
		last := page.Items[limit-1]
		page.Next = position{expiryToMS(last.Expires), last.ID}.cursor(f.Order)
	}
	switch {
	case err != nil || !counted:
	case f.Cursor == "" && page.Next == "":
		// All are on this page: a search that finds few would otherwise look at
		// every row a second time.
		page.Total = len(page.Items)
	default:
		_, err = t.tx.one(`SELECT count(*) FROM entries WHERE `+selected, selectedBy, &page.Total)
	}
	return page, err
}

// startAt adds the cursor of f and returns the ORDER BY.
func (q *selection) startAt(f blocks.Filter) (order string, err error) {
	var at position
	if f.Cursor != "" {
		if at, err = parseCursor(f.Cursor, f.Order); err != nil {
			return "", err
		}
	}
	switch f.Order {
	case blocks.ByCreated: // ids sort by the time they were made
		if f.Cursor != "" {
			q.and("id < ?", at.id)
		}
		return " ORDER BY id DESC", nil
	case blocks.ByExpiry:
		if f.Cursor != "" {
			q.and("(expires_at, id) > (?, ?)", at.expires, at.id)
		}
		return " ORDER BY expires_at, id", nil
	}
	return "", fault.Field("order", "must be created or expiry")
}

// Find implements blocks.Store.
func (s EntryStore) Find(ctx context.Context, f blocks.Filter) (page blocks.Page, err error) {
	limit, err := pageLimit(f.Limit)
	if err != nil {
		return page, err
	}
	err = s.view(ctx, func(t *tx) error {
		page, err = entryTx{t}.page(f, limit, true)
		return err
	})
	return page, err
}

// Each implements blocks.Store. It reads page by page, so that a slow reader
// holds no transaction open.
func (s EntryStore) Each(ctx context.Context, f blocks.Filter) iter.Seq2[*blocks.Entry, error] {
	return func(yield func(*blocks.Entry, error) bool) {
		if f.At.IsZero() {
			f.At = s.now()
		}
		for {
			var page blocks.Page
			err := s.view(ctx, func(t *tx) (err error) {
				page, err = entryTx{t}.page(f, largestLimit, false)
				return err
			})
			if err != nil {
				yield(nil, err)
				return
			}
			for _, e := range page.Items {
				if !yield(e, nil) {
					return
				}
			}
			if f.Cursor = page.Next; f.Cursor == "" {
				return
			}
		}
	}
}
