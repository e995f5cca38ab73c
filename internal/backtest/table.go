package backtest

import (
	"io"
	"strings"

	"github.com/mattn/go-runewidth"
)

// table is rows under titles. All but the wide column stand at the right.
type table struct {
	columns []column
	rows    [][]string
	notes   map[int][]string // below a row, by its number
}

// column is one column of a table.
type column struct {
	title string
	wide  bool // takes the room that the others leave; longer text is cut
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// note adds lines below the last row.
func (t *table) note(lines ...string) {
	if t.notes == nil {
		t.notes = map[int][]string{}
	}
	t.notes[len(t.rows)] = lines
}

const (
	gap       = 2 // spaces between columns
	narrowest = 12
)

// write writes a blank line and the table, at most width columns wide as far
// as the columns that are not wide leave room for.
func (t *table) write(out io.Writer, width int) {
	widths := t.widths(width)
	var b strings.Builder
	b.WriteByte('\n')
	titles := make([]string, len(t.columns))
	for i, c := range t.columns {
		titles[i] = c.title
	}
	for number, row := range append([][]string{titles}, t.rows...) {
		line := ""
		for i, cell := range row {
			if i > 0 {
				line += strings.Repeat(" ", gap)
			}
			cell = runewidth.Truncate(cell, widths[i], "~")
			if t.columns[i].wide {
				line += runewidth.FillRight(cell, widths[i])
			} else {
				line += runewidth.FillLeft(cell, widths[i])
			}
		}
		b.WriteString(strings.TrimRight(line, " "))
		b.WriteByte('\n')
		for _, note := range t.notes[number] {
			b.WriteString(runewidth.Truncate("  "+note, width, "~") + "\n")
		}
	}
	_, _ = io.WriteString(out, b.String()) // WriteText's buffer keeps the error
}

func (t *table) widths(total int) []int {
	widths := make([]int, len(t.columns))
	used, wide := 0, 0
	for i, c := range t.columns {
		widths[i] = runewidth.StringWidth(c.title)
		for _, row := range t.rows {
			widths[i] = max(widths[i], runewidth.StringWidth(row[i]))
		}
		if c.wide {
			wide = i
		} else {
			used += widths[i] + gap
		}
	}
	widths[wide] = min(widths[wide], max(total-used, narrowest))
	return widths
}
