package accesslog

import (
	"strconv"
	"strings"
)

// BadLine is a line that held no request.
type BadLine struct {
	File string `json:"file"` // "" for a Reader that was given no name
	Line int64  `json:"line"` // from 1
	Why  string `json:"why"`  // one line that is safe to print
	Text string `json:"text"` // the beginning of the line, quoted and escaped
}

// Tally counts what was read.
type Tally struct {
	Lines   int64     `json:"lines"` // all but blank ones, and the names above a CSV
	Records int64     `json:"records"`
	Bad     int64     `json:"bad"`
	First   []BadLine `json:"first_bad"` // the first bad lines
}

func (t *Tally) bad(most int, line BadLine) {
	t.Bad++
	if len(t.First) < most {
		t.First = append(t.First, line)
	}
}

// mostShown is how much of a bad line is shown, in bytes.
const mostShown = 120

// clip shortens text out of a log for a message, which must quote it.
func clip(text string) string {
	if len(text) <= mostShown {
		return text
	}
	return strings.ToValidUTF8(text[:mostShown], "") + "..."
}

func shown(line []byte) string {
	if len(line) > mostShown {
		return strconv.Quote(string(line[:mostShown])) + "..."
	}
	return strconv.Quote(string(line))
}
