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

func BenchmarkAppendTime(b *testing.B) {
	for _, version := range []struct {
		name string
		do   func([]byte, time.Time) []byte
	}{
		{"fast", appendTime},
		{"plain", func(text []byte, t time.Time) []byte { return t.AppendFormat(text, TimeLayout) }},
	} {
		b.Run(version.name, func(b *testing.B) {
			var text []byte
			at := time.Date(2026, 11, 20, 14, 3, 14, 600e6, time.UTC)
			for range b.N {
				at = at.Add(time.Millisecond)
				text = version.do(text[:0], at)
			}
		})
	}
}
