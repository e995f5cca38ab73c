package output

import (
	"strings"

	"github.com/mattn/go-runewidth"
)

// The widths to which columns are cut if a table is wider than the terminal: first
// comfortable and then, if omitting columns did not help, narrowest.
const (
	comfortable = 28
	narrowest   = 12
)

// gap is the number of spaces between columns.
const gap = 2

// grid is a table of formatted cells. text/tabwriter, go-pretty and lipgloss/table cut or
// wrap columns but neither omit them nor shorten cells in the middle, so the fitting below
// would stay and only the few lines of render would go.
type grid struct {
	columns []gridColumn
	rows    [][]string
	// brief holds the rows in shorter words, for a narrow terminal.
	brief [][]string
}

type gridColumn struct {
	head  string
	right bool
	cut   bool // may be cut in the middle
	drop  int  // omitted in descending order, 0 never
	width int
}

// render returns the lines of the table. A width other than 0 is the terminal's.
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

// fit makes the table as narrow as width, as far as possible: it cuts long cells to the
// comfortable width, omits columns, uses the brief cells, and then cuts further.
func (g *grid) fit(width int) {
	for g.cutTo(width, comfortable); g.total() > width && g.dropOne(); g.cutTo(width, comfortable) {
		g.measure() // cut cells may fit now
	}
	if g.total() > width {
		g.rows = g.brief
		g.measure()
	}
	g.cutTo(width, narrowest)
}

// cutTo narrows the widest columns that may be cut, none below lowest.
func (g *grid) cutTo(width, lowest int) {
	for over := g.total() - width; over > 0; over = g.total() - width {
		widest := -1
		for i, c := range g.columns {
			if c.cut && c.width > lowest && (widest < 0 || c.width > g.columns[widest].width) {
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
	next := -1
	for i, c := range g.columns {
		if c.drop > 0 && (next < 0 || c.drop > g.columns[next].drop) {
			next = i
		}
	}
	if next < 0 {
		return false
	}
	g.columns = without(g.columns, next)
	for i := range g.rows {
		g.rows[i], g.brief[i] = without(g.rows[i], next), without(g.brief[i], next)
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

// CutMiddle shortens s to width columns of a terminal, three fifths of them for its
// beginning and the rest for its end, since keys differ at both.
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
