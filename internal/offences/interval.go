package offences

import "time"

// Interval is the traffic in an interval of time.
type Interval struct {
	At                                    time.Time
	Allowed, Limited, Challenged, Blocked int64
	// Seconds is the length of the interval so far, less than the step if it is not over yet.
	Seconds float64
}

// Rate returns n per second, 0 for an interval without a length.
func (i *Interval) Rate(n int64) float64 {
	if i.Seconds <= 0 {
		return 0
	}
	return float64(n) / i.Seconds
}

// Refused returns the limited, the challenged and the blocked checks.
func (i *Interval) Refused() int64 { return i.Limited + i.Challenged + i.Blocked }

// Rates returns the counts per second.
func (i *Interval) Rates() Rates {
	return Rates{i.Rate(i.Allowed), i.Rate(i.Limited), i.Rate(i.Challenged), i.Rate(i.Blocked)}
}

// Add adds the counts and the length of another interval.
func (i *Interval) Add(other *Interval) {
	i.Allowed += other.Allowed
	i.Limited += other.Limited
	i.Challenged += other.Challenged
	i.Blocked += other.Blocked
	i.Seconds += other.Seconds
}

// Intervals divides the time between from and to into intervals of step, at least one, and counts
// the traffic in each. They begin at whole multiples of the step, but the first at the minute of from. An interval that began less than 20 seconds (or a third of the step)
// before to has no meaningful rate yet; it is merged into the previous one.
func Intervals(traffic []TrafficPoint, from, to time.Time, step time.Duration) []Interval {
	begin := from.Truncate(min(step, time.Minute))
	from = from.Truncate(step)
	all := make([]Interval, max(1, int((to.Sub(from)+step-1)/step)))
	for i := range all {
		at := from.Add(time.Duration(i) * step)
		end := at.Add(step)
		if end.After(to) {
			end = to
		}
		if at.Before(begin) {
			at = begin
		}
		all[i] = Interval{At: at, Seconds: end.Sub(at).Seconds()}
	}
	for _, t := range traffic {
		if i := int(t.At.Sub(from) / step); i >= 0 && i < len(all) && !t.At.Before(from) {
			all[i].Allowed += t.Allowed
			all[i].Limited += t.Limited
			all[i].Challenged += t.Challenged
			all[i].Blocked += t.Blocked
		}
	}
	if last := len(all) - 1; last > 0 && all[last].Seconds < min(20, step.Seconds()/3) {
		all[last-1].Add(&all[last])
		all = all[:last]
	}
	return all
}

// Sum returns the total of intervals.
func Sum(all []Interval) Interval {
	var sum Interval
	for i := range all {
		sum.Add(&all[i])
	}
	return sum
}
