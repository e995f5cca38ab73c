package wire

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTimeAppendJSONMatchesTimeLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// From the year -999 to 11,000: beyond four digits the layout decides.
		second := rapid.Int64Range(-93_600_000_000, 285_000_000_000).Draw(t, "second")
		at := time.Unix(second, rapid.Int64Range(0, 999_999_999).Draw(t, "nanosecond"))
		if at.IsZero() {
			return
		}
		if got, want := string(At(at).AppendJSON(nil)), `"`+at.UTC().Format(TimeLayout)+`"`; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	})
}
