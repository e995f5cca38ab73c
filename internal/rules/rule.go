// Package rules defines limits: rules such as "20/1m", stacks of rules that must all hold, and
// policies that apply a stack to patterns of keys.
package rules

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/escape"
)

// Bounds of a rule. A log of requests keeps one entry per allowed request, so the limit bounds a
// key's memory.
const (
	MaxLimit = 100_000 // except under the log of amounts, which takes up to algorithms.MaxAmount
	// MaxDistinct is the largest limit of a distinct rule: a log keeps at least 16 bytes for each
	// value.
	MaxDistinct = 10_000
	MinWindow   = time.Millisecond
	MaxWindow   = 31 * 24 * time.Hour
)

// Rule allows at most Limit requests, weighted by cost, in any half-open window of length Window.
// A Limit of 0 refuses everything.
type Rule struct {
	Limit  int
	Window time.Duration // whole milliseconds; 0 for a limit of what is concurrent
	// Unit is what the limit counts, "" for requests: "tokens".
	Unit string
	// Distinct is the name of the value of requests whose different values the rule counts, each
	// once in a window; "" for a rule that counts requests.
	Distinct string
	// Calendar makes the rule count in periods of the calendar, algorithms.CalendarDay or CalendarMonth, in
	// the time zone Zone, "" for UTC. Window is then the length of the longest. "" for a window that slides.
	Calendar, Zone string
	// Points makes Limit a number of points of evidence: requests are refused while a window has as many.
	Points bool
}

// ParseRule parses a rule such as "1/s", "20/min", "20/1m", "200/hour", "5/10s", "0/s", "15/d
// distinct path", "20 points/1h", "1M tokens/1d", "1000/calendar-month" or "16 concurrent". The error is an *Error and says what
// would be right.
func ParseRule(text string) (Rule, error) {
	if r, is, err := parseConcurrent(text); is {
		return r, err
	}
	limitText, windowText, found := strings.Cut(text, "/")
	if !found {
		return Rule{}, refuse(text, "has no slash; write count/window, for example 20/1m")
	}
	limitText, points := cutPoints(limitText)
	limitText, unit := cutUnit(limitText)
	limit, err := parseLimit(text, limitText)
	if err != nil {
		return Rule{}, err
	}
	windowText, distinct, err := cutDistinct(text, windowText)
	if err != nil {
		return Rule{}, err
	}
	r := Rule{Limit: limit, Distinct: distinct, Points: points, Unit: unit}
	windowText = strings.TrimSpace(windowText)
	if r.Window = algorithms.CalendarLength(windowText); r.Window > 0 {
		r.Calendar = windowText
	} else if r.Window, err = parseWindow(text, windowText); err != nil {
		return Rule{}, err
	}
	if problem := r.countedProblem(); problem != "" {
		return Rule{}, refuse(text, "%s", problem)
	}
	return r, nil
}

// distinctWord separates the window of a rule from the name of the value that the rule counts.
const distinctWord = "distinct"

// cutDistinct separates the window from the name of the value that follows it, "" for none.
func cutDistinct(text, window string) (rest, name string, err error) {
	words := strings.Fields(window)
	at := slices.Index(words, distinctWord)
	if at < 0 {
		return window, "", nil
	}
	if len(words) != at+2 {
		return "", "", refuse(text, "must name one value after %s, for example 15/d distinct path", distinctWord)
	}
	return strings.Join(words[:at], " "), words[at+1], nil
}

// cutPoints removes the word points behind a count.
func cutPoints(count string) (rest string, isPoints bool) {
	count = strings.TrimSpace(count)
	for _, word := range []string{wordPoints, "point"} {
		if rest, found := strings.CutSuffix(count, " "+word); found {
			return strings.TrimSpace(rest), true
		}
	}
	return count, false
}

// countedProblem returns what is wrong with a rule that counts different values or points, "" for
// nothing.
func (r Rule) countedProblem() string {
	switch {
	case r.Unit != "" && (r.Distinct != "" || r.Points):
		return "has a unit, and counts different values or points"
	case r.Calendar != "" && (r.Distinct != "" || r.Points):
		return "counts different values or points, for which windows slide; write a duration, for example 1d"
	case r.Points && r.Distinct != "":
		return "counts points and different values; say distinct in the evidence"
	case r.Points && (r.Limit < 1 || r.Limit > MaxPoints):
		return fmt.Sprintf("has a count outside 1 to %d, which are allowed for points", MaxPoints)
	case r.Distinct == "":
	case conditions.CheckValueName(r.Distinct) != nil:
		return "names a value that " + conditions.CheckValueName(r.Distinct).Error()
	case r.Limit < 1 || r.Limit > MaxDistinct:
		return fmt.Sprintf("has a count outside 1 to %d, which are allowed for different values", MaxDistinct)
	}
	return ""
}

// SplitRules splits a text into rules that are separated by spaces, commas or semicolons, as in
// Stack.String. A comma in digits before the slash is part of a count: 1,000/h.
func SplitRules(text string) []string {
	var rules, words []string
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ';' }) {
		count := ""
		for word := range strings.SplitSeq(part, ",") {
			if strings.Trim(word, "0123456789") == "" && word != "" {
				count += word + ","
				continue
			}
			if word = count + word; word != "" {
				words = append(words, word)
			}
			count = ""
		}
		if count != "" {
			words = append(words, strings.TrimSuffix(count, ","))
		}
	}
	for i, word := range words {
		if i > 0 && continuesRule(rules[len(rules)-1], words[i-1], word) {
			rules[len(rules)-1] += " " + word
			continue
		}
		rules = append(rules, word)
	}
	return rules
}

// continuesRule reports whether word, which follows last, is a part of rule. "10 per minute" is one
// wrong rule, so that the error quotes what was written.
func continuesRule(rule, last, word string) bool {
	isCount := !strings.ContainsAny(rule, "/ ") // so far
	isWindow := strings.HasSuffix(last, "/") || strings.HasPrefix(word, "/")
	return isCount || isWindow || word == distinctWord || last == distinctWord || word == "per" || last == "per"
}

func parseLimit(text, digits string) (int, error) {
	if digits == "" {
		return 0, refuse(text, "has no count before the slash; write for example 20/1m")
	}
	number, times := digits, 1
	for _, s := range suffixes {
		if n, found := strings.CutSuffix(digits, s.letter); found {
			number, times = n, s.times
		}
	}
	n, err := ParseCount(number)
	switch meant := meantCount(number); {
	case errors.Is(err, errLargeCount), err == nil && n > algorithms.MaxAmount/times:
		return 0, refuse(text, "has the count %s; at most 1000T are allowed", clip(digits))
	case err != nil && meant != "":
		return 0, refuse(text, "has the count %q; write %s", clip(digits), meant)
	case err != nil:
		return 0, refuse(text, "has the count %q; a count is a whole number from 0 to %d in digits, or one with k, M, G or T: 500k", clip(digits), MaxLimit)
	}
	return n * times, nil
}

// ParseAmount parses an amount as rules write it: 2000, 500k, 1M. The error says what would be right.
func ParseAmount(text string) (int, error) {
	n, err := parseLimit(text, strings.TrimSpace(text))
	if err != nil {
		return 0, errors.New("must be a whole number up to 1000T in digits, or one with k, M, G or T, for example 500k")
	}
	return n, nil
}

// suffixes are the letters for thousands, millions and so on, the largest first.
var suffixes = []struct {
	letter string
	times  int
}{{"T", 1_000_000_000_000}, {"G", 1_000_000_000}, {"M", 1_000_000}, {"k", 1_000}}

// appendLimit appends a limit. One beyond those of requests is written with a suffix: 2500k.
func appendLimit(b []byte, limit int) []byte {
	if limit > MaxLimit {
		for _, s := range suffixes {
			if limit%s.times == 0 {
				return append(strconv.AppendInt(b, int64(limit/s.times), 10), s.letter...)
			}
		}
	}
	return strconv.AppendInt(b, int64(limit), 10)
}

func parseWindow(text, window string) (time.Duration, error) {
	split := strings.IndexFunc(window, func(c rune) bool { return c < '0' || c > '9' })
	if split < 0 {
		return 0, refuse(text, "has no unit after the slash; write ms, s, m, h or d, for example 20/1m")
	}
	number, name := window[:split], strings.TrimSpace(window[split:])
	length, known := findUnit(name)
	if !known {
		return 0, badUnit(text, window, name)
	}
	count := int64(1)
	if number != "" {
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n > int64(MaxWindow/length) {
			return 0, refuse(text, "has a window longer than 31d")
		}
		count = n
	}
	if count == 0 {
		return 0, refuse(text, "has a window of no length; the shortest is 1ms")
	}
	return time.Duration(count) * length, nil
}

// badUnit returns the error for an unknown unit, with a suggestion if it is clear what was meant.
func badUnit(text, window, name string) error {
	if whole, err := ParseDuration(window); err == nil && whole <= MaxWindow {
		return refuse(text, "has a window of two units; write it in one: %s", FormatWindow(whole))
	}
	switch strings.ToLower(name) {
	case "mo", "month", "months", "y", "year", "years":
		return refuse(text, "has the unit %q, which has no fixed length; write days, at most 31d, or calendar-month for the months of the calendar", name)
	}
	return refuse(text, "has the unit %q; write ms, s, m, h or d, for example 20/1m or 5/10s", clip(name))
}

// String returns the canonical form: the count, a slash, and the window in the largest unit that
// divides it, for example "20/1m"; for a distinct rule followed by the value, for example "15/1d
// distinct path"; "1M tokens/1d" with a unit; "16 concurrent".
func (r Rule) String() string { return string(r.append(nil)) }

func (r Rule) append(b []byte) []byte {
	b = appendLimit(b, r.Limit)
	switch {
	case r.IsConcurrent():
		return append(b, " "+concurrentWord...)
	case r.Points:
		b = append(b, " "+wordPoints...)
	case r.Unit != "":
		b = append(append(b, ' '), r.Unit...)
	}
	b = append(b, '/')
	if r.Calendar != "" {
		b = append(b, r.Calendar...)
	} else {
		b = AppendWindow(b, r.Window)
	}
	if r.Distinct != "" {
		b = append(append(b, " "+distinctWord+" "...), r.Distinct...)
	}
	return b
}

// FormatWindow formats a whole number of milliseconds as a number and the largest unit that
// divides it: 90 s is "90s", 24 h is "1d".
func FormatWindow(d time.Duration) string { return string(AppendWindow(nil, d)) }

// AppendJSON appends the rule as a JSON string, "5/1m".
func (r Rule) AppendJSON(b []byte) []byte {
	return append(r.append(append(b, '"')), '"')
}

// AppendWindow appends the result of FormatWindow. Each check formats its rules twice.
//
// Fast path: it divides by constants. Plain version: a loop over units, in append_window_test.go.
// Benchmark: BenchmarkAppendWindow, 1.9 times faster.
func AppendWindow(b []byte, d time.Duration) []byte {
	const day = 24 * time.Hour
	switch {
	case d%day == 0:
		return append(strconv.AppendInt(b, int64(d/day), 10), 'd')
	case d%time.Hour == 0:
		return append(strconv.AppendInt(b, int64(d/time.Hour), 10), 'h')
	case d%time.Minute == 0:
		return append(strconv.AppendInt(b, int64(d/time.Minute), 10), 'm')
	case d%time.Second == 0:
		return append(strconv.AppendInt(b, int64(d/time.Second), 10), 's')
	}
	return append(strconv.AppendInt(b, d.Milliseconds(), 10), "ms"...)
}

// WindowMS returns the window in milliseconds.
func (r Rule) WindowMS() int64 { return r.Window.Milliseconds() }

// Validate returns an error if the rule, however it was made, is out of bounds.
func (r Rule) Validate() error {
	switch {
	case r.Limit < 0 || r.Limit > algorithms.MaxAmount:
		return refuse(r.String(), "has a count outside 0 to 1000T")
	case r.IsConcurrent() && (r.Limit < 1 || r.Limit > MaxConcurrent || r.Distinct != "" || r.Points || r.Unit != ""):
		return refuse(r.String(), "has a count outside 1 to %d, which are allowed for what is concurrent", MaxConcurrent)
	case r.IsConcurrent():
	case r.Window < MinWindow || r.Window > MaxWindow:
		return refuse(r.String(), "has a window outside 1ms to 31d")
	case r.Window%time.Millisecond != 0:
		return refuse(r.String(), "has a window that is not whole milliseconds")
	case r.Calendar != "" && algorithms.CalendarLength(r.Calendar) != r.Window:
		return refuse(r.String(), "has a period that is none of the calendar; write calendar-day or calendar-month")
	case r.countedProblem() != "":
		return refuse(r.String(), "%s", r.countedProblem())
	}
	return nil
}

// Pace returns the time between two requests that use up r exactly, on average; 0 for a limit of
// 0, which has none, and for one of what is concurrent.
func (r Rule) Pace() time.Duration {
	if r.Limit == 0 {
		return 0
	}
	return r.Window / time.Duration(r.Limit)
}

// most returns how many requests r allows in the busiest window of length w: a burst at its
// beginning and another burst each time r's own window has passed.
func (r Rule) most(w time.Duration) int64 {
	windows := int64((w + r.Window - 1) / r.Window)
	if int64(r.Limit) > math.MaxInt64/windows {
		return math.MaxInt64
	}
	return int64(r.Limit) * windows
}

// Error says what is wrong with a rule or a stack and what would be right.
type Error struct {
	Text    string // what was given, unescaped
	Problem string // a clause that follows "the rule ..."
}

// Error returns one line that is safe to print.
func (e *Error) Error() string { return fmt.Sprintf("the rule %q %s", clip(e.Text), e.Problem) }

func refuse(text, format string, args ...any) error {
	return &Error{Text: text, Problem: fmt.Sprintf(format, args...)}
}

// clip shortens text from a caller for a message. The message must still quote it.
func clip(s string) string { return escape.Clip(s, 40) }
