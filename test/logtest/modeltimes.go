package logtest

import (
	"slices"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// retryOf returns the earliest instant from now on at which q may have that
// reservation, trying all at which something changes.
func retryOf(times []int64, now, reservation int64, q timestamplog.Request) int64 {
	if reservation == timestamplog.Never {
		return reservation
	}
	for _, at := range slices.Sorted(slices.Values(append([]int64{now, reservation - q.MaxWait, reservation}, times...))) {
		ahead := 0
		for _, t := range times {
			if t > at {
				ahead++
			}
		}
		if at >= now && (reservation <= at || reservation-at <= q.MaxWait && ahead+q.Cost <= timestamplog.MaxReserved) {
			return at
		}
	}
	panic("logtest: a reservation that never comes")
}

// fitsNow reports whether every rule allows q now.
func fitsNow(times []int64, now int64, q timestamplog.Request) bool {
	for _, rule := range q.Rules {
		if retry, _ := waitOf(times, now, rule.Limit, rule.WindowMS(), q.Cost); retry != 0 {
			return false
		}
	}
	return endOf(times, now) == now
}

func timesOf(entries []modelEntry) []int64 {
	times := make([]int64, len(entries))
	for i, e := range entries {
		times[i] = e.at
	}
	return times
}

// endOf returns now, or the newest of times where it lies ahead.
func endOf(times []int64, now int64) int64 {
	if len(times) == 0 {
		return now
	}
	return max(now, times[len(times)-1])
}

// waitOf returns the earliest instant from now on at which cost more fits into
// the window that ends there, 0 where it is now, and the entry that has then
// just left it.
func waitOf(times []int64, now int64, limit int, window int64, cost int) (retry, boundary int64) {
	if cost > limit {
		return timestamplog.Never, 0
	}
	if count(times, now, window)+cost <= limit {
		return 0, 0
	}
	for _, t := range times { // in order, so the first that fits is the earliest
		if t+window > now && count(times, t+window, window)+cost <= limit {
			return t + window, t
		}
	}
	panic("logtest: a limit that is never free although it is not 0")
}

// count returns how many times lie in the half-open window that ends at end, or
// ahead of it.
func count(times []int64, end, window int64) int {
	n := 0
	for _, t := range times {
		if end-t < window {
			n++
		}
	}
	return n
}

func stateOf(times []int64, now int64, rule rules.Rule, cost int) timestamplog.RuleState {
	end := endOf(times, now)
	state := timestamplog.RuleState{Remaining: max(0, rule.Limit-count(times, end, rule.WindowMS()))}
	if retry, _ := waitOf(times, now, rule.Limit, rule.WindowMS(), cost); retry == timestamplog.Never {
		state.RetryAfterMS = retry
	} else {
		state.RetryAfterMS = max(end, retry) - now
	}
	if rule.Limit > 0 {
		state.ResetAfterMS = resetOf(times, now, rule.WindowMS()) - now
	}
	return state
}

// resetOf returns the earliest instant from now on at which no time lies in the
// window that ends there, trying all at which one leaves it.
func resetOf(times []int64, now, window int64) int64 {
	if count(times, now, window) == 0 {
		return now
	}
	for _, t := range times { // in order
		if at := t + window; at > now && count(times, at, window) == 0 {
			return at
		}
	}
	panic("logtest: a window that never empties")
}
