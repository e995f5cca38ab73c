package paging

import (
	"encoding/base64"
	"strings"

	"github.com/stint-dev/stint/internal/fault"
)

const (
	defaultLimit = 100
	// MaxLimit is the largest number of rows on a page of a list.
	MaxLimit = 1000
)

// Limit returns the number of rows on a page, 100 for 0. An error concerns the field
// "limit".
func Limit(limit int) (int, error) {
	switch {
	case limit == 0:
		return defaultLimit, nil
	case limit < 0 || limit > MaxLimit:
		return 0, fault.Field("limit", "must be 1 to %d", MaxLimit)
	}
	return limit, nil
}

// BadCursor is the text of the fault for a cursor that is not from the list.
const BadCursor = "is not a cursor of this list; leave it out to begin at the first page"

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
