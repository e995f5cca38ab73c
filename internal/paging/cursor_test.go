package paging_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/paging"
)

func TestCursorRoundTripsValuesAndSpacesInLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := append(rapid.SliceOfN(rapid.StringMatching(`[^ ]*`), 0, 4).Draw(t, "values"), rapid.String().Draw(t, "last"))
		if got, err := paging.ParseCursor(paging.Cursor(values...), len(values)); err != nil || !slices.Equal(got, values) {
			t.Errorf("got %q, %v, want %q", got, err, values)
		}
	})
}

func TestParseCursorRejectsInvalidCursors(t *testing.T) {
	for name, cursor := range map[string]string{"too few values": paging.Cursor("a"), "no base64": "!", "padding": strings.Repeat("a", 5)} {
		if got, err := paging.ParseCursor(cursor, 2); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}
