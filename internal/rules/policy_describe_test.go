package rules_test

import (
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
)

func counting(t *testing.T, algorithm, stack string, o algorithms.Options) *rules.Policy {
	t.Helper()
	return &rules.Policy{Algorithm: algorithm, Options: o, Rules: mustStack(t, stack)}
}

func TestPolicyDescriptionFollowsItsAlgorithm(t *testing.T) {
	for _, c := range []struct {
		algorithm, stack string
		options          algorithms.Options
		want             string
	}{
		{"timestamp_log", "20/m", algorithms.Options{}, "At most 20 in any minute."},
		{"sorted_set_log", "20/m", algorithms.Options{CountRefused: true},
			"At most 20 in any minute. Refused requests count too: a client that keeps sending requests is refused until it pauses."},
		{"fixed_window", "20/m 800/d", algorithms.Options{},
			"At most 20 in each minute of the clock and 800 in each day of the clock. Across the end of one up to twice as many come: 40 in a minute and 1,600 in a day."},
		{"fixed_window", "20/m", algorithms.Options{WindowStart: algorithms.WindowFirst},
			"At most 20 in the minute after a first request; the next request after it begins another. Across its end up to twice as many come: 40 in a minute."},
		{"sliding_window", "20/m", algorithms.Options{},
			"At most 20 in each minute of the clock. In other stretches that long nearly twice as many can come, though never at once; " +
				"and a request is now and then refused needlessly, since the window before is taken to have been even."},
		{"sliding_buckets", "20/m 800/d", algorithms.Options{},
			"At most 20 in any 59 seconds and 800 in any 23 hours 36 minutes. " +
				"Requests leave the count up to a sixtieth of a window early, so that up to twice as many can lie within a whole one."},
		{"sliding_buckets", "2/30ms", algorithms.Options{}, "At most 2 in any 30 milliseconds."},
		{"token_bucket", "20/m 800/d", algorithms.Options{},
			"At most 20 at once, then one every 3 seconds; and 800 at once, then one every 1 minute 48 seconds. So never more than 40 in any minute and 1,600 in any day."},
		{"gcra", "20/m", algorithms.Options{Burst: 5}, "At most 5 at once, then one every 3 seconds. So never more than 25 in any minute."},
		{"gcra", "5000/s", algorithms.Options{}, "At most 5,000 at once, then 5,000 every second, evenly. So never more than 10,000 in any second."},
		{"leaky_bucket", "20/m", algorithms.Options{}, "At most 20 at once, then one every 3 seconds. So never more than 40 in any minute."},
		{"leaky_bucket", "20/m 200/h", algorithms.Options{Variant: algorithms.VariantQueue, Burst: 10},
			"One request after the other: one every 18 seconds. A request that waits gets the next reservation, at most 30 seconds ahead; one that does not wait is refused unless it may leave at once."},
		{"gcra", "7/m", algorithms.Options{Burst: 1}, "At most 1 at once, then one every 8.6 seconds. So never more than 8 in any minute."},
		{"token_bucket", "0/s 20/m", algorithms.Options{}, "No request is allowed."},
		{"token_bucket", "", algorithms.Options{}, "Every request is allowed: there are no rules."},
	} {
		if got := counting(t, c.algorithm, c.stack, c.options).Describe(); got != c.want {
			t.Errorf("%s of %s is described as\n\t%s\nwant\n\t%s", c.stack, c.algorithm, got, c.want)
		}
	}
}

func TestWarningsDependOnTheAlgorithm(t *testing.T) {
	for _, c := range []struct {
		algorithm, stack string
		options          algorithms.Options
		idle             string
	}{
		{"timestamp_log", "20/m 1200/h", algorithms.Options{}, "1200/1h"},
		{"fixed_window", "20/m 10/h", algorithms.Options{}, "20/1m"},
		{"fixed_window", "20/m 10/h", algorithms.Options{WindowStart: algorithms.WindowFirst}, ""},
		{"fixed_window", "10/7m 10/h", algorithms.Options{}, ""},
		{"fixed_window", "20/m 1200/h", algorithms.Options{}, ""},
		{"sliding_window", "20/m 10/h", algorithms.Options{}, ""},
		{"sliding_buckets", "20/m 10/h", algorithms.Options{}, "20/1m"},
		{"sliding_buckets", "10/59m 10/h", algorithms.Options{}, ""},
		{"token_bucket", "20/m 800/d", algorithms.Options{}, ""},
		{"token_bucket", "20/m 800/d", algorithms.Options{Burst: 5}, "20/1m"},
		{"gcra", "20/m 1300/h", algorithms.Options{}, "1300/1h"},
		{"leaky_bucket", "20/m 20/m", algorithms.Options{}, ""},
		{"leaky_bucket", "20/m 800/d", algorithms.Options{Variant: algorithms.VariantQueue}, ""},
		{"sorted_set_log", "1/s 3600/h", algorithms.Options{CountRefused: true}, ""},
		{"sorted_set_log", "20/m 10/h", algorithms.Options{CountRefused: true}, "20/1m"},
		{"token_bucket", "0/s 20/m", algorithms.Options{}, "20/1m"},
	} {
		var idle []string
		for _, w := range counting(t, c.algorithm, c.stack, c.options).Warnings() {
			idle = append(idle, w.Rule.String())
		}
		if got := strings.Join(idle, " "); got != c.idle {
			t.Errorf("%s %+v of %s warns of %q, want %q", c.algorithm, c.options, c.stack, got, c.idle)
		}
	}
}
