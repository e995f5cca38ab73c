// Package escape makes text that others chose harmless where it is shown or
// written: keys, reasons and user agents come from attackers.
package escape

import (
	"fmt"
	"strings"
	"unicode"
)

// unseen are the characters that count as printable and show nothing.
var unseen = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x034f, Hi: 0x034f, Stride: 1}, // grapheme joiner
		{Lo: 0x115f, Hi: 0x1160, Stride: 1}, // Hangul fillers
		{Lo: 0x17b4, Hi: 0x17b5, Stride: 1}, // Khmer inherent vowels
		{Lo: 0x180b, Hi: 0x180f, Stride: 1}, // Mongolian selectors
		{Lo: 0x2800, Hi: 0x2800, Stride: 1}, // empty Braille pattern
		{Lo: 0x3164, Hi: 0x3164, Stride: 1}, // Hangul filler
		{Lo: 0xfe00, Hi: 0xfe0f, Stride: 1}, // variation selectors
		{Lo: 0xffa0, Hi: 0xffa0, Stride: 1}, // Hangul filler
	},
	R32: []unicode.Range32{{Lo: 0xe0100, Hi: 0xe01ef, Stride: 1}}, // variation selectors
}

// IsHidden reports whether a character cannot be seen, moves a cursor or
// changes the direction of text. The space is not hidden.
func IsHidden(r rune) bool { return !unicode.IsPrint(r) || unicode.Is(unseen, r) }

// Visible returns text with each hidden character but the line feed drawn as its code
// point, U+202E for example.
func Visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r != '\n' && IsHidden(r) {
			fmt.Fprintf(&b, "U+%04X", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
