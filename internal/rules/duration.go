package rules

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// unit is a unit of time and its spellings, the canonical one first.
type unit struct {
	length time.Duration
	writes bool // false for a unit that is parsed but never formatted
	names  []string
	word   string // in sentences, singular
}

// units is sorted, the longest first.
var units = []unit{
	{7 * 24 * time.Hour, false, []string{"w", "wk", "week", "weeks"}, "week"},
	{24 * time.Hour, true, []string{"d", "day", "days"}, "day"},
	{time.Hour, true, []string{"h", "hr", "hrs", "hour", "hours"}, "hour"},
	{time.Minute, true, []string{"m", "min", "mins", "minute", "minutes"}, "minute"},
	{time.Second, true, []string{"s", "sec", "secs", "second", "seconds"}, "second"},
	{time.Millisecond, true, []string{"ms", "msec", "millisecond", "milliseconds"}, "millisecond"},
}

// findUnit finds a unit by any of its names, ignoring case.
func findUnit(name string) (time.Duration, bool) {
	name = strings.ToLower(name)
	for _, u := range units {
		for _, known := range u.names {
			if name == known {
				return u.length, true
			}
		}
	}
	return 0, false
}

// DurationError says what is wrong with a duration and what would be right.
type DurationError struct {
	Text    string // what was given, unescaped
	Problem string // a clause that follows "the duration ..."
}

// Error returns one line that is safe to print.
func (e *DurationError) Error() string {
	return fmt.Sprintf("the duration %q %s", clip(e.Text), e.Problem)
}

func refuseDuration(text, format string, args ...any) error {
	return &DurationError{Text: text, Problem: fmt.Sprintf(format, args...)}
}

// ParseDuration parses a duration such as "24h", "7d", "1h30m", "90s" or "2 weeks". Units are w,
// d, h, m, s and ms, each at most once and the longest first. The numbers are whole. A duration
// is longer than 0 and at most 106,751 days. The error is a *DurationError.
func ParseDuration(text string) (time.Duration, error) {
	rest := strings.TrimSpace(text)
	if rest == "" {
		return 0, refuseDuration(text, "is empty; write for example 24h, 7d or 1h30m")
	}
	if rest[0] == '-' {
		return 0, refuseDuration(text, "is negative; write how long it lasts, for example 24h")
	}
	var total time.Duration
	last := time.Duration(math.MaxInt64)
	for rest != "" {
		count, length, behind, err := nextPart(text, rest)
		if err != nil {
			return 0, err
		}
		if length >= last {
			return 0, refuseDuration(text, "names its units out of order or twice; write the longest first, for example 1h30m")
		}
		if count > int64((math.MaxInt64-total)/length) {
			return 0, refuseDuration(text, "is too long; the longest duration is 106751d")
		}
		total += time.Duration(count) * length
		last, rest = length, behind
	}
	if total == 0 {
		return 0, refuseDuration(text, "has no length; write for example 24h, 7d or 1h30m")
	}
	return total, nil
}

// nextPart parses the number and unit at the beginning of rest.
func nextPart(text, rest string) (count int64, length time.Duration, behind string, err error) {
	digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
	if digits == 0 {
		return 0, 0, "", refuseDuration(text, "has no number where one is due; write for example 24h, 7d or 1h30m")
	}
	after := strings.TrimLeft(rest[digits:], " ")
	if after != "" && (after[0] == '.' || after[0] == ',') {
		return 0, 0, "", refuseDuration(text, "has a fraction or a separator; write whole numbers in digits, for example 1h30m for one and a half hours")
	}
	end := strings.IndexAny(after, " 0123456789")
	if end < 0 {
		end = len(after)
	}
	if end == 0 {
		return 0, 0, "", refuseDuration(text, "has no unit after %s; write w, d, h, m, s or ms, for example 90s", clip(rest[:digits]))
	}
	length, known := findUnit(after[:end])
	if !known {
		return 0, 0, "", refuseDuration(text, "has the unit %q; write w, d, h, m, s or ms, for example 24h or 7d", clip(after[:end]))
	}
	count, err = strconv.ParseInt(rest[:digits], 10, 64)
	if err != nil {
		return 0, 0, "", refuseDuration(text, "is too long; the longest duration is 106751d")
	}
	return count, length, strings.TrimLeft(after[end:], " "), nil
}

// FormatDuration formats d for ParseDuration, in days and shorter units: 24 h is "1d", 90 min is
// "1h30m". It drops everything below a millisecond. Zero is "0s", and a negative duration begins
// with a minus sign.
func FormatDuration(d time.Duration) string {
	var b strings.Builder
	if d < 0 {
		b.WriteByte('-')
	}
	rest := d.Abs()
	for _, u := range units {
		if count := rest / u.length; u.writes && count > 0 {
			b.WriteString(strconv.FormatInt(int64(count), 10) + u.names[0])
			rest %= u.length
		}
	}
	if strings.Trim(b.String(), "-") == "" {
		return "0s"
	}
	return b.String()
}

// inWords formats d for a sentence, by its two longest units: "3 hours 16 minutes".
func inWords(d time.Duration) string {
	var parts []string
	for _, u := range units {
		if count := d / u.length; u.writes && count > 0 && len(parts) < 2 {
			parts = append(parts, counted(int64(count), u.word))
			d %= u.length
		}
	}
	return strings.Join(parts, " ")
}

// windowInWords formats a rule's window for a sentence, after "any": "minute", "10 seconds".
func windowInWords(w time.Duration) string {
	for _, u := range units {
		if u.writes && w%u.length == 0 {
			if w == u.length {
				return u.word
			}
			return counted(int64(w/u.length), u.word)
		}
	}
	return w.String()
}

func counted(n int64, word string) string {
	if n != 1 {
		word += "s"
	}
	return grouped(n) + " " + word
}

// grouped formats n with commas between thousands.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
