package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// aheadBy returns a clock that is ahead of this node's by d.
func aheadBy(name string, d time.Duration) clock {
	return clock{name, func(context.Context) (time.Time, error) { return time.Now().Add(d), nil }}
}

func TestWarnOfSkewNamesClocksThatDisagree(t *testing.T) {
	// A minute is far more than the delay that a busy machine adds to a reading.
	const far = time.Minute
	silent := clock{"Redis", func(context.Context) (time.Time, error) { return time.Time{}, errors.New("unreachable") }}
	for name, test := range map[string]struct {
		clocks []clock
		want   []string // the pairs that disagree
	}{
		"all agree":                         {clocks: []clock{aheadBy("the database", 0), aheadBy("Redis", 0)}},
		"Redis is ahead":                    {[]clock{aheadBy("the database", 0), aheadBy("Redis", far)}, []string{`one="this node" other=Redis`, `one="the database" other=Redis`}},
		"the database is behind":            {[]clock{aheadBy("the database", -far), aheadBy("Redis", 0)}, []string{`one="this node" other="the database"`, `one="the database" other=Redis`}},
		"this node is wrong":                {[]clock{aheadBy("the database", far), aheadBy("Redis", far)}, []string{`one="this node" other="the database"`, `one="this node" other=Redis`}},
		"one does not answer":               {clocks: []clock{silent, aheadBy("the database", 0)}},
		"one does not answer, one is wrong": {[]clock{silent, aheadBy("the database", far)}, []string{`one="this node" other="the database"`}},
	} {
		t.Run(name, func(t *testing.T) {
			var logged strings.Builder
			wrong := warnOfSkew(t.Context(), slog.New(slog.NewTextHandler(&logged, nil)), test.clocks...)
			if len(wrong) != len(test.want) || strings.Count(logged.String(), "level=WARN") != len(test.want) {
				t.Fatalf("got %v and logged %q, want %d warnings", wrong, logged.String(), len(test.want))
			}
			for _, pair := range test.want {
				if !strings.Contains(logged.String(), pair) {
					t.Errorf("logged %q, want %s", logged.String(), pair)
				}
			}
		})
	}
}

func TestWarnOfSkewIgnoresSlowAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := clock{"the database", func(context.Context) (time.Time, error) {
			now := time.Now()
			time.Sleep(4 * time.Second)
			return now, nil
		}}
		var logged strings.Builder
		if wrong := warnOfSkew(t.Context(), slog.New(slog.NewTextHandler(&logged, nil)), slow); len(wrong) > 0 {
			t.Errorf("got %v and logged %q, want no warning", wrong, logged.String())
		}
	})
}
