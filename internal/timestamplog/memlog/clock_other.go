//go:build !linux || !amd64

package memlog

import "time"

// wallClock returns the present time.
func wallClock() time.Time { return time.Now() }
