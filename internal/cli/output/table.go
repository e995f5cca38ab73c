package output

import (
	"strings"

	"github.com/mattn/go-runewidth"
)

// The widths that columns are cut to when a table is wider than the terminal:
// first the comfortable one, then, when dropping columns did not help, the
// narrowest.
const (
	comfortable = 28
	narrowest   = 12
)

// gap is the number of blanks between columns.
const gap = 2

// grid is a table of cells as people see them.
type grid struct {
	columns []gridColumn
	rows    [][]string
	// brief holds the rows in a shorter wording, for a narrow terminal.
	brief [][]string
}

type gridColumn struct {
	head  string
	right bool
	cut   bool // may be cut in the middle
	drop  int  // larger goes first, 0 never
	width int
}

// render returns the lines of the table, within width columns of a terminal
// where width is not 0.
func (g *grid) render(width int) []string {
	g.measure()
	if width > 0 {
		g.fit(width)
	}
	heads := make([]string, len(g.columns))
	for i, c := range g.columns {
		heads[i] = strings.ToUpper(c.head)
	}
	lines := []string{g.line(heads)}
	for _, row := range g.rows {
		lines = append(lines, g.line(row))
	}
	return lines
}

func (g *grid) measure() {
	for i := range g.columns {
		g.columns[i].width = runewidth.StringWidth(g.columns[i].head)
		for _, row := range g.rows {
			g.columns[i].width = max(g.columns[i].width, runewidth.StringWidth(row[i]))
		}
	}
}

func (g *grid) total() int {
	sum := gap * (len(g.columns) - 1)
	for _, c := range g.columns {
		sum += c.width
	}
	return sum
}

// fit makes the table as narrow as width, as far as it can: cutting long
// cells to a comfortable width, dropping the columns that matter least, wording
// shorter, and then cutting further.
func (g *grid) fit(width int) {
	for g.cutTo(width, comfortable); g.total() > width && g.dropOne(); g.cutTo(width, comfortable) {
		g.measure() // what was cut may fit now
	}
	if g.total() > width {
		g.rows = g.brief
		g.measure()
	}
	g.cutTo(width, narrowest)
}

// cutTo narrows the widest columns that may be cut, none below least.
func (g *grid) cutTo(width, least int) {
	for over := g.total() - width; over > 0; over = g.total() - width {
		widest := -1
		for i, c := range g.columns {
			if c.cut && c.width > least && (widest < 0 || c.width > g.columns[widest].width) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		g.columns[widest].width--
	}
}

func (g *grid) dropOne() bool {
	least := -1
	for i, c := range g.columns {
		if c.drop > 0 && (least < 0 || c.drop > g.columns[least].drop) {
			least = i
		}
	}
	if least < 0 {
		return false
	}
	g.columns = without(g.columns, least)
	for i := range g.rows {
		g.rows[i], g.brief[i] = without(g.rows[i], least), without(g.brief[i], least)
	}
	return true
}

func without[E any](all []E, at int) []E {
	return append(append([]E(nil), all[:at]...), all[at+1:]...)
}

func (g *grid) line(cells []string) string {
	var b strings.Builder
	for i, c := range g.columns {
		if i > 0 {
			b.WriteString(strings.Repeat(" ", gap))
		}
		text := CutMiddle(cells[i], c.width)
		blanks := strings.Repeat(" ", max(0, c.width-runewidth.StringWidth(text)))
		if c.right {
			b.WriteString(blanks + text)
		} else {
			b.WriteString(text + blanks)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// CutMiddle shortens s to width columns of a terminal, keeping three fifths of
// them for its head and the rest for its tail, since keys differ at both ends.
func CutMiddle(s string, width int) string {
	if runewidth.StringWidth(s) <= width {
		return s
	}
	if width <= 1 {
		return strings.Repeat("…", max(width, 0))
	}
	head := (width - 1) * 3 / 5
	tail := width - 1 - head
	front := runewidth.Truncate(s, head, "")
	return front + "…" + runewidth.TruncateLeft(s, runewidth.StringWidth(s)-tail, "")
}
