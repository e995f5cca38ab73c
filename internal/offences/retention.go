package offences

import (
	"time"
)

// SampleRetention is how long the traffic sample is kept: previews of blocks and policies are
// about the last day.
const SampleRetention = 24 * time.Hour

// Retention says how long counts are kept. Zero fields mean 30 days of
// minutes, 400 days of hours and 5 years of days.
type Retention struct {
	Minutes, Hours, Days time.Duration
}

// WithDefaults fills in what is zero.
func (r Retention) WithDefaults() Retention {
	const day = 24 * time.Hour
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{{&r.Minutes, 30 * day}, {&r.Hours, 400 * day}, {&r.Days, 5 * 365 * day}} {
		if *d.value <= 0 {
			*d.value = d.standard
		}
	}
	return r
}
