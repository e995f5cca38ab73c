package accesslog

import (
	"strconv"

	"github.com/stint-dev/stint/internal/escape"
)

// BadLine is a line without a request.
type BadLine struct {
	File string `json:"file"` // empty if the Reader has no name
	Line int64  `json:"line"` // from 1
	Why  string `json:"why"`  // one line that is safe to print
	Text string `json:"text"` // the beginning of the line, quoted and escaped
}

// Counts counts what was read.
type Counts struct {
	Lines   int64     `json:"lines"` // all but blank ones, and the names above a CSV
	Records int64     `json:"records"`
	Bad     int64     `json:"bad_lines"`
	Skipped int64     `json:"skipped"`   // by Options.SkipPaths or Filter
	First   []BadLine `json:"first_bad"` // the first bad lines
	// Warnings say what was ignored beside bad lines, each in one line that is safe to print.
	Warnings []string `json:"warnings,omitempty"`
}

func (t *Counts) addBad(limit int, line BadLine) {
	t.Bad++
	if len(t.First) < limit {
		t.First = append(t.First, line)
	}
}

// maxShown is the length to which a bad line is cut, in bytes.
const maxShown = 120

// clip shortens text of a log for a message, which must quote it.
func clip(text string) string { return escape.Clip(text, maxShown) }

func shown(line []byte) string {
	if len(line) > maxShown {
		return strconv.Quote(string(line[:maxShown])) + "..."
	}
	return strconv.Quote(string(line))
}
