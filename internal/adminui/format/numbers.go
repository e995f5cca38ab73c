package format

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/rules"
)

// Number formats a count with commas: 25,170.
func Number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "−", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Compact formats a large count for a sentence: 1.25 M.
func Compact(n int64) string {
	switch {
	case n >= 1e9:
		return significant(float64(n)/1e9) + " G"
	case n >= 1e6:
		return significant(float64(n)/1e6) + " M"
	}
	return Number(n)
}

func significant(f float64) string {
	switch {
	case f >= 100:
		return strconv.FormatFloat(f, 'f', 0, 64)
	case f >= 10:
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return strconv.FormatFloat(f, 'f', 2, 64)
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

// Plural formats a count with its word: "1 key", "3 keys".
func Plural[N int | int64](n N, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return Number(int64(n)) + " " + word + "s"
}

// DurationUnits are the units of durations.
var DurationUnits = []struct {
	Length time.Duration
	Name   string
}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}}

// Duration formats a duration in its two largest units, rounded down: "3 h 52 min", "12 s", and
// below ten seconds "1.4 s".
func Duration(d time.Duration) string {
	if d < 0 {
		d = -d
	}
	if d < 10*time.Second {
		return strings.TrimSuffix(strconv.FormatFloat(d.Truncate(100*time.Millisecond).Seconds(), 'f', 1, 64), ".0") + " s"
	}
	for i, u := range DurationUnits {
		if d < u.Length {
			continue
		}
		text := fmt.Sprintf("%d %s", d/u.Length, u.Name)
		if i+1 < len(DurationUnits) {
			if rest := d % u.Length / DurationUnits[i+1].Length; rest > 0 {
				text += fmt.Sprintf(" %d %s", rest, DurationUnits[i+1].Name)
			}
		}
		return text
	}
	return "0 s"
}

// Seconds formats a wait for the header Retry-After.
func Seconds(d time.Duration) string { return strconv.FormatInt(int64(RoundUp(d)/time.Second), 10) }

// wordsOfWindow are the windows that are written as a word.
var wordsOfWindow = map[time.Duration]string{time.Second: "s", time.Minute: "min", time.Hour: "h", 24 * time.Hour: "day"}

// Rule formats a rule for the pages: 20/min, 800/day, 5/10 s.
func Rule(r rules.Rule) string {
	text := Amount(r.Limit)
	switch {
	case r.IsConcurrent():
		return text + " concurrent"
	case r.Points:
		text += " points"
	case r.Unit != "":
		text += " " + r.Unit
	}
	if r.Calendar != "" {
		return text + "/" + r.Calendar
	}
	text += "/" + Window(r.Window)
	if r.Distinct != "" {
		text += " distinct " + r.Distinct
	}
	return text
}

// Amount formats a limit: one of whole millions is written with a letter, 25M.
func Amount(n int) string {
	for _, u := range []struct {
		letter string
		size   int
	}{{"T", 1_000_000_000_000}, {"G", 1_000_000_000}, {"M", 1_000_000}} {
		if n >= u.size && n%u.size == 0 {
			return Number(int64(n/u.size)) + u.letter
		}
	}
	return Number(int64(n))
}

// Rules formats all rules of a stack.
func Rules(s rules.Stack) string {
	texts := make([]string, len(s))
	for i, r := range s {
		texts[i] = Rule(r)
	}
	return strings.Join(texts, ", ")
}

func Window(w time.Duration) string {
	if word, known := wordsOfWindow[w]; known {
		return word
	}
	for _, u := range DurationUnits {
		if w%u.Length == 0 {
			return fmt.Sprintf("%d %s", w/u.Length, u.Name)
		}
	}
	return fmt.Sprintf("%d ms", w.Milliseconds())
}

// RuleText formats a rule given in its canonical form. It returns other texts unchanged, since
// they may be the id of a block.
func RuleText(text string) string {
	r, err := rules.ParseRule(text)
	if err != nil {
		return text
	}
	return Rule(r)
}

// PerSecond formats a rate in a readable precision.
func PerSecond(f float64) string {
	switch {
	case f >= 10 || f == 0:
		return Number(int64(f + 0.5))
	case f < 0.05:
		return "<0.1"
	}
	return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0")
}

// WholePercent formats a ratio, 0 to 1, for a sentence.
func WholePercent(f float64) string {
	switch {
	case f > 0.995:
		return "All"
	case f < 0.01:
		return "Less than 1%"
	}
	return Number(int64(100*f+0.5)) + "%"
}

// RoundUp rounds a wait up to whole seconds.
func RoundUp(d time.Duration) time.Duration { return (d + time.Second - 1).Truncate(time.Second) }

// Pace describes the average rate of a rule: "one every 5 s".
func Pace(r rules.Rule) string {
	every := r.Pace()
	switch {
	case r.IsConcurrent():
		return "open at once"
	case r.Points:
		return "refuses from then on"
	case r.Limit == 0:
		return "refuses everything"
	case every < 10*time.Millisecond:
		return "one every " + strconv.FormatFloat(1000*every.Seconds(), 'g', 2, 64) + " ms"
	case every < time.Second:
		return fmt.Sprintf("one every %d ms", every.Milliseconds())
	}
	return "one every " + paceText(every)
}

// paceText formats a pace so that two can be compared: in seconds up to ten minutes.
func paceText(d time.Duration) string {
	if d < 10*time.Minute {
		return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Seconds()), ".0") + " s"
	}
	return Duration(d)
}
