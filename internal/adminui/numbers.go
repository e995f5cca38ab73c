package adminui

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/rules"
)

// number writes a count with commas: 25,170.
func number(n int64) string {
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

// compact writes a big count for a sentence: 1.25 M.
func compact(n int64) string {
	switch {
	case n >= 1e9:
		return significant(float64(n)/1e9) + " G"
	case n >= 1e6:
		return significant(float64(n)/1e6) + " M"
	}
	return number(n)
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

// share writes a part of a whole: 79.2%.
func share(part, whole int64) string {
	if whole == 0 {
		return "0%"
	}
	p := 100 * float64(part) / float64(whole)
	if p > 0 && p < 0.1 {
		return "<0.1%"
	}
	return strings.TrimSuffix(strconv.FormatFloat(p, 'f', 1, 64), ".0") + "%"
}

// plural writes a count with its word: "1 key", "3 keys".
func plural[N int | int64](n N, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return number(int64(n)) + " " + word + "s"
}

// durationUnits are what a duration is written in.
var durationUnits = []struct {
	length time.Duration
	name   string
}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}}

// duration writes a length of time in its two largest units, rounded down:
// "3 h 52 min", "12 s", and below ten seconds "1.4 s".
func duration(d time.Duration) string {
	if d < 0 {
		d = -d
	}
	if d < 10*time.Second {
		return strings.TrimSuffix(strconv.FormatFloat(d.Truncate(100*time.Millisecond).Seconds(), 'f', 1, 64), ".0") + " s"
	}
	for i, u := range durationUnits {
		if d < u.length {
			continue
		}
		text := fmt.Sprintf("%d %s", d/u.length, u.name)
		if i+1 < len(durationUnits) {
			if rest := d % u.length / durationUnits[i+1].length; rest > 0 {
				text += fmt.Sprintf(" %d %s", rest, durationUnits[i+1].name)
			}
		}
		return text
	}
	return "0 s"
}

// seconds writes a wait for the header Retry-After.
func seconds(d time.Duration) string { return strconv.FormatInt(int64(roundUp(d)/time.Second), 10) }

// wordsOfWindow are the windows that read better with a word.
var wordsOfWindow = map[time.Duration]string{time.Second: "s", time.Minute: "min", time.Hour: "h", 24 * time.Hour: "day"}

// rule writes a rule as the pages do: 20/min, 800/day, 5/10 s.
func rule(r rules.Rule) string { return number(int64(r.Limit)) + "/" + window(r.Window) }

func window(w time.Duration) string {
	if word, known := wordsOfWindow[w]; known {
		return word
	}
	for _, u := range durationUnits {
		if w%u.length == 0 {
			return fmt.Sprintf("%d %s", w/u.length, u.name)
		}
	}
	return fmt.Sprintf("%d ms", w.Milliseconds())
}

// ruleText writes a rule given in its canonical form, and anything else as it
// is: what decides is a rule or the id of a block.
func ruleText(text string) string {
	r, err := rules.ParseRule(text)
	if err != nil {
		return text
	}
	return rule(r)
}

// perSecond writes a rate so that it can be read at a glance.
func perSecond(f float64) string {
	switch {
	case f >= 10 || f == 0:
		return number(int64(f + 0.5))
	case f < 0.05:
		return "<0.1"
	}
	return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0")
}

// wholePercent writes a share, 0 to 1, for a sentence.
func wholePercent(f float64) string {
	switch {
	case f > 0.995:
		return "All"
	case f < 0.01:
		return "Less than 1%"
	}
	return number(int64(100*f+0.5)) + "%"
}
