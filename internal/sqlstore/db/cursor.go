package db

import (
	"encoding/base64"
	"strings"

	"github.com/google/uuid"

	"github.com/stint-dev/stint/internal/fault"
)

// Cursor returns the cursor of a page that ended with a row of these values. Only the last
// of them may have spaces.
func Cursor(values ...string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join(values, " ")))
}

// ParseCursor returns the values of a cursor of a list whose cursors have n of them. Callers
// wrote it: the values may be anything, and the last one have spaces.
func ParseCursor(cursor string, n int) ([]string, error) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if values := strings.SplitN(string(raw), " ", n); err == nil && len(values) == n {
		return values, nil
	}
	return nil, fault.Field("cursor", BadCursor)
}

// AfterID has a list in the order of descending UUIDs go on behind a page, "" for its start.
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

// CutPage returns the first limit of rows, and the cursor behind them if there are more:
// read one more than the page holds.
func CutPage[T any](rows []T, limit int, cursorOf func(T) string) (page []T, next string) {
	if len(rows) <= limit {
		return rows, ""
	}
	return rows[:limit], cursorOf(rows[limit-1])
}
