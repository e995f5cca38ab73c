package db

import (
	"encoding/base64"
	"strings"

	"github.com/google/uuid"

	"github.com/stint-dev/stint/internal/fault"
)

// Cursor returns the cursor after a row with these values. Only the last value may contain
// spaces.
func Cursor(values ...string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join(values, " ")))
}

// ParseCursor returns the n values of a cursor. Callers can write cursors: the values may be
// anything, and the last one may contain spaces.
func ParseCursor(cursor string, n int) ([]string, error) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if values := strings.SplitN(string(raw), " ", n); err == nil && len(values) == n {
		return values, nil
	}
	return nil, fault.Field("cursor", BadCursor)
}

// AfterID continues a list in descending order of UUIDs after a cursor, "" for the first page.
func (q *Selection) AfterID(cursor string) error {
	if cursor == "" {
		return nil
	}
	values, err := ParseCursor(cursor, 1)
	if err != nil {
		return err
	}
	if uuid.Validate(values[0]) != nil {
		return fault.Field("cursor", BadCursor)
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
