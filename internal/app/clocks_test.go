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

// aheadBy returns a clock that differs from this node's.
func aheadBy(name string, d time.Duration) clock {
	return clock{name, func(context.Context) (time.Time, error) { return time.Now().Add(d), nil }}
}

func TestClocksThatDisagreeByMoreThanASecondAreNamed(t *testing.T) {
	// A minute is far beyond what a busy machine adds to a reading.
	const far = time.Minute
	silent := clock{"Redis", func(context.Context) (time.Time, error) { return time.Time{}, errors.New("unreachable") }}
	for name, test := range map[string]struct {
		clocks []clock
		want   []string // who disagrees with whom
	}{
		"all agree":                      {clocks: []clock{aheadBy("the database", 0), aheadBy("Redis", 0)}},
		"Redis is ahead":                 {[]clock{aheadBy("the database", 0), aheadBy("Redis", far)}, []string{`one="this node" other=Redis`, `one="the database" other=Redis`}},
		"the database is behind":         {[]clock{aheadBy("the database", -far), aheadBy("Redis", 0)}, []string{`one="this node" other="the database"`, `one="the database" other=Redis`}},
		"this node is wrong":             {[]clock{aheadBy("the database", far), aheadBy("Redis", far)}, []string{`one="this node" other="the database"`, `one="this node" other=Redis`}},
		"one is silent":                  {clocks: []clock{silent, aheadBy("the database", 0)}},
		"one is silent and one is wrong": {[]clock{silent, aheadBy("the database", far)}, []string{`one="this node" other="the database"`}},
	} {
		t.Run(name, func(t *testing.T) {
			var said strings.Builder
			wrong := warnOfSkew(t.Context(), slog.New(slog.NewTextHandler(&said, nil)), test.clocks...)
			if len(wrong) != len(test.want) || strings.Count(said.String(), "level=WARN") != len(test.want) {
				t.Fatalf("got %v and said %q, want %d warnings", wrong, said.String(), len(test.want))
			}
			for _, pair := range test.want {
				if !strings.Contains(said.String(), pair) {
					t.Errorf("said %q, want %s", said.String(), pair)
				}
			}
		})
	}
}

func TestASlowAnswerIsNoWrongClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := clock{"the database", func(context.Context) (time.Time, error) {
			now := time.Now()
			time.Sleep(4 * time.Second)
			return now, nil
		}}
		var said strings.Builder
		if wrong := warnOfSkew(t.Context(), slog.New(slog.NewTextHandler(&said, nil)), slow); len(wrong) > 0 {
			t.Errorf("said %q", said.String())
		}
	})
}
