package blocks

import (
	"time"

	"github.com/stint-dev/stint/internal/fault"
)

// MaxReason is the longest reason of an entry, in bytes.
const MaxReason = 1000

// LastExpiry is the latest possible expiry of an entry, in UTC: JSON and tables write years with
// four digits.
var LastExpiry = time.Date(9999, time.December, 31, 23, 59, 59, 999_999_999, time.UTC)

// IsLater reports whether an expiry is later than another. The zero time means permanent and is
// later than any other.
func IsLater(expires, than time.Time) bool {
	return !than.IsZero() && (expires.IsZero() || expires.After(than))
}

// Expiry is when an entry expires: after For, at Until, or never if both are zero.
type Expiry struct {
	For   time.Duration
	Until time.Time
}

// At returns the expiry of an entry that is added or changed at now; zero means permanent. Errors
// are *fault.Error for the fields expires_in and expires_at.
func (e Expiry) At(now time.Time) (time.Time, error) {
	switch {
	case e.For != 0 && !e.Until.IsZero():
		return time.Time{}, fault.Field("expires_in", "cannot be combined with expires_at; leave both out for permanent")
	case e.For < 0:
		return time.Time{}, fault.Field("expires_in", "must be longer than 0")
	case e.For > 0:
		return now.Add(e.For), nil
	case !e.Until.IsZero() && !e.Until.After(now):
		return time.Time{}, fault.Field("expires_at", "must be in the future; the time of the server is %s", now.UTC().Format("2006-01-02T15:04:05Z"))
	case e.Until.After(LastExpiry):
		return time.Time{}, fault.Field("expires_at", "must be before the year 10000 in UTC; leave it out for permanent")
	}
	return e.Until, nil
}
