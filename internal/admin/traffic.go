package admin

import (
	"context"
	"time"

	"github.com/stint-dev/stint/internal/keys"
)

// TrafficEstimate is how much of the traffic of a span some keys make up. It is an
// estimate from a sample of all keys.
type TrafficEstimate struct {
	From, To time.Time // of what was recorded, within what was asked for
	Keys     int64     // selected keys that were seen
	AllKeys  int64
	// Checks is how many checks the selected keys asked.
	Checks    int64
	AllChecks int64
	// Share is the part of all checks, 0 to 1, and Error what to add and
	// subtract for 19 in 20 such estimates to hold the truth.
	Share, Error float64
}

// TrafficEstimator estimates from recorded traffic. A nil result without an
// error says that nothing is recorded.
type TrafficEstimator interface {
	EstimateTraffic(ctx context.Context, from, to time.Time, selects func(keys.Key) bool) (*TrafficEstimate, error)
}
