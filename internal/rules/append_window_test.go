package rules

import (
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// appendWindowPlain is the plain version of AppendWindow.
func appendWindowPlain(b []byte, d time.Duration) []byte {
	for _, u := range units {
		if u.writes && d%u.length == 0 {
			return append(strconv.AppendInt(b, int64(d/u.length), 10), u.names[0]...)
		}
	}
	return b
}

func TestAppendWindowWritesTheLargestUnit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom(units).Draw(t, "unit").length
		d := time.Duration(rapid.Int64Range(0, int64(10*MaxWindow/unit)).Draw(t, "count")) * unit
		if got, want := string(AppendWindow(nil, d)), string(appendWindowPlain(nil, d)); got != want {
			t.Fatalf("%v is written %q, want %q", d, got, want)
		}
	})
}

func BenchmarkAppendWindow(b *testing.B) {
	windows := []time.Duration{time.Second, 10 * time.Second, time.Minute, 15 * time.Minute, time.Hour, 24 * time.Hour}
	for _, version := range []struct {
		name string
		do   func([]byte, time.Duration) []byte
	}{{"fast", AppendWindow}, {"plain", appendWindowPlain}} {
		b.Run(version.name, func(b *testing.B) {
			var text []byte
			for n := range b.N {
				text = version.do(text[:0], windows[n%len(windows)])
			}
		})
	}
}
