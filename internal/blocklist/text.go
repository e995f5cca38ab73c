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
