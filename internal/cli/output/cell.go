package output

import (
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/stint-dev/stint/internal/escape"
)

// Cell is one value, formatted for people in a table and for programs in CSV. The zero
// value is empty in both.
type Cell struct {
	show string // empty for a time, which is formatted relative to the Printer's Now
	data string
	at   time.Time
	text bool // data is free text, which a spreadsheet could run as a formula
}

// Text is a value of free text, which may come from an attacker.
func Text(s string) Cell { return Cell{show: Escape(s), data: s, text: true} }

// Texts is several values separated by spaces.
func Texts[S ~string](all []S) Cell {
	texts := make([]string, len(all))
	for i, s := range all {
		texts[i] = string(s)
	}
	return Text(strings.Join(texts, " "))
}

// FirstTexts is Texts, but a table shows only the first n and the number of the others.
func FirstTexts[S ~string](all []S, n int) Cell {
	whole := Texts(all)
	if len(all) > n {
		whole.show = Texts(all[:n]).show + " and " + Amount(len(all)-n, "more", "more")
	}
	return whole
}

// Number is a count; for people its digits are grouped by three.
func Number[N ~int | ~int64](n N) Cell {
	return Cell{show: humanize.Comma(int64(n)), data: strconv.FormatInt(int64(n), 10)}
}

// Ratio is a number from 0 to 1: a percentage with one decimal for people.
func Ratio(ratio float64) Cell {
	return Cell{
		show: strconv.FormatFloat(ratio*100, 'f', 1, 64) + " %",
		data: strconv.FormatFloat(ratio, 'f', -1, 64),
	}
}

// Time is a time; the zero time is empty.
func Time(t time.Time) Cell {
	if t.IsZero() {
		return Cell{}
	}
	return Cell{at: t, data: t.UTC().Format("2006-01-02T15:04:05.000Z07:00")}
}

// TimeOr is a time, or words for people if it is the zero time: "permanent", "never".
func TimeOr(t time.Time, words string) Cell {
	if t.IsZero() {
		return Cell{show: words}
	}
	return Time(t)
}

// Milliseconds is a duration, with units for people and a number for programs.
func Milliseconds(ms int64) Cell {
	return Cell{show: Duration(time.Duration(ms) * time.Millisecond), data: strconv.FormatInt(ms, 10)}
}

// Words is a value with one text for people and one for programs. Neither may contain free
// text.
func Words(show, data string) Cell { return Cell{show: show, data: data} }

// YesNo is a boolean.
func YesNo(b bool) Cell {
	if b {
		return Words("yes", "true")
	}
	return Words("no", "false")
}

func (c Cell) shown(now time.Time) string {
	if !c.at.IsZero() {
		return When(c.at, now)
	}
	return c.show
}

// brief is a shorter form of shown, if there is one.
func (c Cell) brief(now time.Time) string {
	if !c.at.IsZero() {
		return Relative(c.at, now)
	}
	return c.show
}

func (c Cell) csv() string {
	if c.text {
		return escape.CSV(c.data)
	}
	return c.data
}
