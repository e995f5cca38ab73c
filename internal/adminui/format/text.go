// Package format writes numbers, times and keys for the pages.
package format

import (
	"strings"
	"unicode"
)

// Capital makes the first letter of a clause a capital.
func Capital(text string) string {
	if text == "" {
		return ""
	}
	text = strings.ToUpper(text[:1]) + text[1:]
	if strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}

// ClipLine converts any text to one line of at most the given number of bytes.
func ClipLine(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}

// IsPlain reports whether text is printable ASCII.
func IsPlain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}
