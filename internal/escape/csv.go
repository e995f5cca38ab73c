package escape

import (
	"strings"
	"unicode"
)

// CSV returns a cell that no spreadsheet runs as a formula: where a cell could
// be one, an apostrophe is put before it. Every cell of a CSV file that holds
// text passes it. FromCSV undoes it, whatever the cell.
func CSV(cell string) string {
	if isFormula(cell) {
		return "'" + cell
	}
	return cell
}

// FromCSV undoes CSV.
func FromCSV(cell string) string {
	if rest, found := strings.CutPrefix(cell, "'"); found && isFormula(rest) {
		return rest
	}
	return cell
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
