package escape

import "strings"

// Clip returns a text of more than so many bytes as its first ones and "...", so that the
// reader sees that something was cut. The result may have three bytes more. No character is
// cut in two: of a text that is cut, bytes that are no UTF-8 are left out.
func Clip(text string, maxBytes int) string {
	if len(text) <= maxBytes {
		return text
	}
	return strings.ToValidUTF8(text[:maxBytes], "") + "..."
}
