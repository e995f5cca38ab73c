package format_test

import (
	"testing"

	"github.com/stint-dev/stint/internal/adminui/format"
)

func TestRatioSaysNoneAndAllOnlyOfThem(t *testing.T) {
	for _, c := range []struct {
		part, whole int64
		want        string
	}{
		{0, 0, "0%"}, {0, 5, "0%"}, {5, 5, "100%"}, {1, 5, "20.0%"}, {1, 5000, "<0.1%"}, {9994, 10000, "99.9%"}, {14606, 14610, ">99.9%"},
	} {
		if got := format.Ratio(c.part, c.whole); got != c.want {
			t.Errorf("Ratio(%d, %d): got %s, want %s", c.part, c.whole, got, c.want)
		}
	}
}
