package offences

import (
	"time"
)

// SampleRetention is how long the traffic sample is kept. Previews of blocks and policies use the
// last day.
const SampleRetention = 24 * time.Hour

// Retention is how long counts are kept. Zero fields mean 30 days for minutes, 400 days for hours
// and 5 years for days.
type Retention struct {
	Minutes, Hours, Days time.Duration
}

// WithDefaults replaces zero fields by their defaults.
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
