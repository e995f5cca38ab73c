package admin

import "github.com/stint-dev/stint/internal/blocklist"

// TrafficEstimate is how much of the traffic of a span some keys make up.
type TrafficEstimate = blocklist.Traffic

// TrafficEstimator estimates from recorded traffic.
type TrafficEstimator = blocklist.TrafficEstimator
