package db

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/paging"
)

// AfterID continues a list in descending order of UUIDs after a cursor, "" for the first page.
func (q *Selection) AfterID(cursor string) error {
	if cursor == "" {
		return nil
	}
	values, err := paging.ParseCursor(cursor, 1)
	if err != nil {
		return err
	}
	if uuid.Validate(values[0]) != nil {
		return fault.Field("cursor", paging.BadCursor)
	}
	q.And("id < ?", values[0])
	return nil
}

// CutPage returns the first limit of rows, and the cursor of the next page if there are more.
// Pass one row more than the page has.
func CutPage[T any](rows []T, limit int, cursorOf func(T) string) (page []T, next string) {
	if len(rows) <= limit {
		return rows, ""
	}
	return rows[:limit], cursorOf(rows[limit-1])
}

// Position is the place of a row in a list: lists are in ascending order of Rank, then of Text,
// then of ID, which is unique in the list and has no spaces.
type Position struct {
	Rank int64
	Text string
	ID   string
}

func (p Position) compare(other Position) int {
	return cmp.Or(cmp.Compare(p.Rank, other.Rank), strings.Compare(p.Text, other.Text), strings.Compare(p.ID, other.ID))
}

// PageOf sorts the rows of a list that is read as a whole, and returns the page of at most limit
// rows after a cursor, "" for the first page. A limit of 0 means all rows. order is the name of
// the order in which position places the rows.
func PageOf[T any](rows []T, order, cursor string, limit int, position func(T) Position) (page paging.Page[T], err error) {
	if limit < 0 || limit > paging.MaxLimit {
		return page, fault.Field("limit", "must be 1 to %d", paging.MaxLimit)
	}
	total := len(rows)
	if cursor != "" {
		values, err := paging.ParseCursor(cursor, 4)
		if err != nil {
			return page, err
		}
		rank, err := strconv.ParseInt(values[1], 10, 64)
		if err != nil || values[0] != order {
			return page, fault.Field("cursor", paging.BadCursor)
		}
		after := Position{Rank: rank, ID: values[2], Text: values[3]}
		rows = slices.DeleteFunc(rows, func(row T) bool { return position(row).compare(after) <= 0 })
	}
	slices.SortFunc(rows, func(a, b T) int { return position(a).compare(position(b)) })
	page.Total = total
	if page.Items = rows; limit == 0 {
		return page, nil
	}
	page.Items, page.Next = CutPage(rows, limit, func(last T) string {
		at := position(last)
		return paging.Cursor(order, strconv.FormatInt(at.Rank, 10), at.ID, at.Text)
	})
	return page, nil
}

// Contains returns a function that reports whether a text contains search, ignoring case.
func Contains(search string) (func(text string) bool, error) {
	if err := CheckText("search", search); err != nil {
		return nil, err
	}
	search = strings.ToLower(search)
	return func(text string) bool { return strings.Contains(strings.ToLower(text), search) }, nil
}
