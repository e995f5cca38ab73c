package algorithms

// roundedUp returns n / by for n of at least 0, rounded up.
func roundedUp(n, by int64) int64 { return (n + by - 1) / by }

// lower makes n at most most, and reports whether it was more.
func lower(n *int64, most int64) bool {
	if *n <= most {
		return false
	}
	*n = most
	return true
}

// clockWindow returns when the window of the clock that now lies in began.
func clockWindow(now, window int64) int64 { return now - now%window }

// clockWindowAhead returns the latest window that may be counted at now: the next
// one. One that lies further ahead shows that the clock has stepped back. It is
// the next, not the present one, that a count moves to: a clock that steps back
// again and again over the beginning of a window would else open it each time.
func clockWindowAhead(now, window int64) int64 { return clockWindow(now, window) + window }
