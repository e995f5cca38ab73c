package httpserver

import (
	"fmt"
	"unicode"

	"github.com/stint-dev/stint/internal/fault"
)

// CheckLine refuses text of more than maxBytes bytes or with control characters.
func CheckLine(field, text string, maxBytes int) error {
	if len(text) > maxBytes {
		return fault.Field(field, "has %d bytes; at most %d are allowed", len(text), maxBytes)
	}
	for i, r := range text {
		if unicode.IsControl(r) {
			return fault.Field(field, "%s", fmt.Sprintf("holds the control character U+%04X at byte %d; remove it", r, i))
		}
	}
	return nil
}
