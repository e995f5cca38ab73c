package output

import (
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/stint-dev/stint/internal/escape"
)

// Cell is one value of a listing, which a table shows to people and CSV gives
// to programs. The zero value is empty in both.
type Cell struct {
	show string // "" for an instant, which is shown relative to the Printer's now
	data string
	at   time.Time
	text bool // data is free text, which a spreadsheet might run
}

// Text is a value made of free text, however hostile.
func Text(s string) Cell { return Cell{show: Escape(s), data: s, text: true} }

// Texts is several values in one cell.
func Texts[S ~string](all []S) Cell {
	texts := make([]string, len(all))
	for i, s := range all {
		texts[i] = string(s)
	}
	return Text(strings.Join(texts, " "))
}

// Number is a count, in digits grouped by three for people.
func Number[N ~int | ~int64](n N) Cell {
	return Cell{show: humanize.Comma(int64(n)), data: strconv.FormatInt(int64(n), 10)}
}

// Share is a part of a whole, 0 to 1: a percentage with one decimal for
// people, the fraction for programs.
func Share(part float64) Cell {
	return Cell{
		show: strconv.FormatFloat(part*100, 'f', 1, 64) + " %",
		data: strconv.FormatFloat(part, 'f', -1, 64),
	}
}

// Time is an instant; the zero time is empty.
func Time(t time.Time) Cell {
	if t.IsZero() {
		return Cell{}
	}
	return Cell{at: t, data: t.UTC().Format("2006-01-02T15:04:05.000Z07:00")}
}

// TimeOr is an instant, or words for people where it is the zero time: "for
// good", "never".
func TimeOr(t time.Time, words string) Cell {
	if t.IsZero() {
		return Cell{show: words}
	}
	return Time(t)
}

// Milliseconds is a length of time, written out for people and as a number of
// milliseconds for programs.
func Milliseconds(ms int64) Cell {
	return Cell{show: Duration(time.Duration(ms) * time.Millisecond), data: strconv.FormatInt(ms, 10)}
}

// Words is a value that reads otherwise for people than for programs. Neither
// may hold free text.
func Words(show, data string) Cell { return Cell{show: show, data: data} }

// YesNo is a truth.
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

// brief is shorter than shown where that is possible.
func (c Cell) brief(now time.Time) string {
	if !c.at.IsZero() {
		return Apart(c.at, now)
	}
	return c.show
}

func (c Cell) csv() string {
	if c.text {
		return escape.CSV(c.data)
	}
	return c.data
}
