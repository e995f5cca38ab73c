package algorithms

// roundedUp returns n / by rounded up, for n of at least 0.
func roundedUp(n, by int64) int64 { return (n + by - 1) / by }

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
