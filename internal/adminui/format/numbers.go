package format

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/rules"
)

// Compact formats a large count for a sentence: 1.25 M.
func Compact(n int64) string {
	switch {
	case n >= 1e9:
		return significant(float64(n)/1e9) + " G"
	case n >= 1e6:
		return significant(float64(n)/1e6) + " M"
	}
	return phrase.Number(n)
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
			return phrase.Number(int64(n/u.size)) + u.letter
		}
	}
	return phrase.Number(int64(n))
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
	for _, u := range phrase.Units {
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
		return phrase.Number(int64(f + 0.5))
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
	return phrase.Number(int64(100*f+0.5)) + "%"
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
	return phrase.Duration(d)
}
