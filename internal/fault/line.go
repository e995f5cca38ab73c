package fault

import (
	"unicode"
	"unicode/utf8"
)

// CheckLine returns what is wrong with a text of one line, nil for nothing: it
// must be valid UTF-8 of at most maxBytes bytes without control characters.
func CheckLine(field, text string, maxBytes int) error {
	if len(text) > maxBytes {
		return Field(field, "has %d bytes; at most %d are allowed", len(text), maxBytes)
	}
	if !utf8.ValidString(text) {
		return Field(field, "must be valid UTF-8")
	}
	for i, r := range text {
		if unicode.IsControl(r) {
			return Field(field, "has the control character U+%04X at byte %d; remove it", r, i)
		}
	}
	return nil
}
