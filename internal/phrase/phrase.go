// Package phrase writes numbers and times in the sentences that people read: on pages, in the audit,
// in notifications, in reports and in what commands print. What programs read, and what people type,
// is written by the packages of its syntax, for example rules.FormatDuration.
package phrase

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Number formats a count with commas: 25,170.
func Number[N ~int | ~int64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	sign := ""
	if n < 0 {
		sign, digits = "−", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Count formats a count with its word: "1 key", "1,284 keys".
func Count[N ~int | ~int64](n N, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return Number(n) + " " + word + "s"
}

// Times formats how often something happened: "once", "1,284 times".
func Times[N ~int | ~int64](n N) string {
	if n == 1 {
		return "once"
	}
	return Count(n, "time")
}

// Ratio formats a part of a whole: 79.2%. It says 0% and 100% only of none and of all.
func Ratio(part, whole int64) string {
	switch part {
	case 0:
		return "0%"
	case whole:
		return "100%"
	}
	p := 100 * float64(part) / float64(whole)
	switch {
	case p > 0 && p < 0.1:
		return "<0.1%"
	case p >= 99.95 && p < 100:
		return ">99.9%"
	}
	return strconv.FormatFloat(p, 'f', 1, 64) + "%"
}

// Units are the units of durations, the longest first.
var Units = []struct {
	Length time.Duration
	Name   string
}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}}

// Duration formats a duration in its two largest units, rounded down: "3 h 52 min", "12 s", and
// below ten seconds "1.4 s". It leaves the sign out.
func Duration(d time.Duration) string {
	d = d.Abs()
	if d < 10*time.Second {
		return strings.TrimSuffix(strconv.FormatFloat(d.Truncate(100*time.Millisecond).Seconds(), 'f', 1, 64), ".0") + " s"
	}
	for i, u := range Units {
		if d < u.Length {
			continue
		}
		text := fmt.Sprintf("%d %s", d/u.Length, u.Name)
		if i+1 < len(Units) {
			if rest := d % u.Length / Units[i+1].Length; rest > 0 {
				text += fmt.Sprintf(" %d %s", rest, Units[i+1].Name)
			}
		}
		return text
	}
	return "0 s"
}

// At formats a minute in UTC: "1 Dec 2026, 08:12 UTC".
func At(t time.Time) string { return t.UTC().Format("2 Jan 2006, 15:04 UTC") }
