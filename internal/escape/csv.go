package escape

import (
	"strings"
	"unicode"
)

// CSV returns a cell that no spreadsheet runs as a formula and that keeps the spaces around
// it: where a cell could be one or has some, an apostrophe is put before it. Some spreadsheets
// also end a cell at a semicolon or a tab, so what follows one is treated as a cell. Every cell
// of a CSV file that holds text passes it.
func CSV(cell string) string {
	if !needsMark(cell) && !strings.ContainsAny(cell, separators) {
		return cell
	}
	b := make([]byte, 0, len(cell)+2)
	if needsMark(cell) {
		b = append(b, '\'')
	}
	for i := range len(cell) {
		if b = append(b, cell[i]); isSeparator(cell[i]) && isFormula(cell[i+1:]) {
			b = append(b, '\'')
		}
	}
	return string(b)
}

// FromCSV undoes CSV, whatever the cell. A cell that people wrote loses the spaces around it.
func FromCSV(cell string) string {
	rest, found := strings.CutPrefix(cell, "'")
	if found && needsMark(rest) {
		cell = rest
	} else {
		cell = strings.TrimSpace(cell)
	}
	if !strings.ContainsAny(cell, separators) {
		return cell
	}
	b := make([]byte, 0, len(cell))
	for i := 0; i < len(cell); i++ {
		b = append(b, cell[i])
		if isSeparator(cell[i]) && strings.HasPrefix(cell[i+1:], "'") && isFormula(cell[i+2:]) {
			i++ // the apostrophe
		}
	}
	return string(b)
}

// separators may end a cell besides the comma, for which the csv package quotes a cell.
const separators = ";\t"

func isSeparator(c byte) bool { return strings.IndexByte(separators, c) >= 0 }

// needsMark reports whether an apostrophe is put before a cell. It is the same of a cell that
// has got one.
func needsMark(cell string) bool {
	bare := strings.TrimLeft(cell, "'")
	return isFormula(cell) || strings.TrimSpace(bare) != bare
}

// isFormula reports whether a spreadsheet may take a cell for a formula. Some
// remove spaces, quotes and what cannot be seen before they look.
func isFormula(cell string) bool {
	for _, r := range cell {
		switch {
		case strings.ContainsRune(formulaStarts, r):
			return true
		case !isSkipped(r):
			return false
		}
	}
	return false
}

// formulaStarts begin a formula: in ASCII, at full width and in their small
// forms; and the control characters that end the cell before one.
const formulaStarts = "=+-@\t\r\n" + "＝＋－＠" + "﹦﹢﹣﹫"

func isSkipped(r rune) bool {
	return IsHidden(r) || unicode.IsSpace(r) || strings.ContainsRune("'\"`´‘’‚‛“”„‟«»‹›＇＂", r)
}
