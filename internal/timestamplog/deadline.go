package timestamplog

import "context"

// EndsAtDeadline reports whether ctx ends at its deadline and never before. A log may then use
// its own timer for that deadline and need not watch Done.
func EndsAtDeadline(ctx context.Context) bool {
	c, is := ctx.(interface{ EndsAtDeadline() bool })
	return is && c.EndsAtDeadline()
}
