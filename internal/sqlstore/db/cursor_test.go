package db_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

func TestCursorRoundTripsValuesAndSpacesInLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := append(rapid.SliceOfN(rapid.StringMatching(`[^ ]*`), 0, 4).Draw(t, "values"), rapid.String().Draw(t, "last"))
		if got, err := db.ParseCursor(db.Cursor(values...), len(values)); err != nil || !slices.Equal(got, values) {
			t.Errorf("got %q, %v, want %q", got, err, values)
		}
	})
}

func TestParseCursorRejectsInvalidCursors(t *testing.T) {
	for name, cursor := range map[string]string{"too few values": db.Cursor("a"), "no base64": "!", "padding": strings.Repeat("a", 5)} {
		if got, err := db.ParseCursor(cursor, 2); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}
