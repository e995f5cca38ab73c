package app

import (
	"context"
	"log/slog"
	"time"
)

// maxClockSkew is how far the clocks of this node, of Redis and of the database may
// differ without a warning.
const maxClockSkew = time.Second

// clock is a clock that the node depends on.
type clock struct {
	name string
	now  func(context.Context) (time.Time, error)
}

// skew is how far a clock is ahead of this node's, plus or minus Error, the time that reading
// it took.
type skew struct {
	Name         string
	Ahead, Error time.Duration
}

// readSkew reads one clock.
func readSkew(ctx context.Context, c clock) (skew, error) {
	before := time.Now()
	theirs, err := c.now(ctx)
	if err != nil {
		return skew{}, err
	}
	half := time.Since(before) / 2
	return skew{c.name, theirs.Sub(before.Add(half)), half}, nil
}

// warnOfSkew compares the clocks, logs those that disagree and returns them.
func warnOfSkew(ctx context.Context, log *slog.Logger, clocks ...clock) []skew {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	all := []skew{{Name: "this node"}}
	for _, c := range clocks {
		if s, err := readSkew(ctx, c); err == nil {
			all = append(all, s)
		}
	}
	var wrong []skew
	for i, a := range all {
		for _, b := range all[i+1:] {
			if apart := (a.Ahead - b.Ahead).Abs(); apart-a.Error-b.Error > maxClockSkew {
				log.Warn("clocks disagree by more than a second; set them by NTP, or waits and expiries in answers are wrong",
					"one", a.Name, "other", b.Name, "apart", apart.Round(time.Millisecond))
				wrong = append(wrong, b)
			}
		}
	}
	return wrong
}
