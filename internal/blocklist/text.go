package blocklist

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// isLine reports whether a text is valid UTF-8 without control characters.
func isLine(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, unicode.IsControl) < 0
}

// dangerous are what a spreadsheet takes for the beginning of a formula.
const dangerous = "=+-@\t\r\n＝＋－＠"

// Defuse keeps a spreadsheet from running a cell as a formula: it puts an
// apostrophe in front of what could be one. Fuse undoes it, whatever the cell.
func Defuse(cell string) string {
	if startsFormula(strings.TrimLeft(cell, "'")) {
		return "'" + cell
	}
	return cell
}

// Fuse undoes Defuse.
func Fuse(cell string) string {
	if rest, found := strings.CutPrefix(cell, "'"); found && startsFormula(strings.TrimLeft(rest, "'")) {
		return rest
	}
	return cell
}

func startsFormula(text string) bool {
	first, size := utf8.DecodeRuneInString(text)
	return size > 0 && strings.ContainsRune(dangerous, first)
}
