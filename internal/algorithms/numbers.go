package algorithms

import (
	"math"
	"math/bits"
)

// roundedUp returns n / by rounded up, for n of at least 0.
func roundedUp(n, by int64) int64 { return (n + by - 1) / by }

// scaled returns a*b/by rounded down and what is left of a*b then, for a and b of at least 0; (MaxInt64, 0) if the
// quotient is larger than that.
func scaled(a, b, by int64) (quotient, left int64) {
	high, low := bits.Mul64(uint64(a), uint64(b)) //nolint:gosec // not negative
	if high >= uint64(by) {                       //nolint:gosec // above 0
		return math.MaxInt64, 0
	}
	q, rest := bits.Div64(high, low, uint64(by)) //nolint:gosec // above 0
	if q > math.MaxInt64 {
		return math.MaxInt64, 0
	}
	return int64(q), int64(rest) //nolint:gosec // rest is below by
}

// scaledUp returns a*b/by rounded up.
func scaledUp(a, b, by int64) int64 {
	q, left := scaled(a, b, by)
	if left > 0 {
		q++
	}
	return q
}

// lower reduces n to most if it is larger, and reports whether it was.
func lower(n *int64, most int64) bool {
	if *n <= most {
		return false
	}
	*n = most
	return true
}

// clockWindow returns the beginning of the clock window that contains now.
func clockWindow(now, window int64) int64 { return now - now%window }

// clockWindowAhead returns the beginning of the latest window whose count is kept at now, which
// is the next one. A later window shows that the clock stepped back. Its count is moved to the
// next window and not to the present one, because a clock that steps back repeatedly over the
// beginning of a window would otherwise start a new count each time.
func clockWindowAhead(now, window int64) int64 { return clockWindow(now, window) + window }
