package phrase_test

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/phrase"
)

func TestRatioSaysNoneAndAllOnlyOfThem(t *testing.T) {
	for _, c := range []struct {
		part, whole int64
		want        string
	}{
		{0, 0, "0%"}, {0, 5, "0%"}, {5, 5, "100%"}, {1, 5, "20.0%"}, {1, 5000, "<0.1%"}, {9994, 10000, "99.9%"}, {14606, 14610, ">99.9%"},
	} {
		if got := phrase.Ratio(c.part, c.whole); got != c.want {
			t.Errorf("Ratio(%d, %d): got %s, want %s", c.part, c.whole, got, c.want)
		}
	}
}

func TestSentencesHaveOneFormOfNumbersAndTimes(t *testing.T) {
	for got, want := range map[string]string{
		phrase.Number(-25170): "−25,170", phrase.Number(999): "999", phrase.Count(1, "key"): "1 key", phrase.Count(int64(1284), "key"): "1,284 keys",
		phrase.Times(1): "once", phrase.Times(1350): "1,350 times", phrase.Duration(10 * time.Minute): "10 min", phrase.Duration(8 * time.Hour): "8 h",
		phrase.Duration(-232 * time.Minute): "3 h 52 min", phrase.Duration(1450 * time.Millisecond): "1.4 s",
		phrase.At(time.Date(2026, 12, 1, 9, 12, 0, 0, time.FixedZone("", 3600))): "1 Dec 2026, 08:12 UTC",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
