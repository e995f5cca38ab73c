package output

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/stint-dev/stint/internal/escape"
)

// Escape returns s as one line with escapes in place of the characters that move a
// terminal's cursor, change the direction of text or are invisible. Keys, reasons and user
// agents come from attackers.
func Escape(s string) string {
	if !strings.ContainsFunc(s, escape.IsHidden) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !escape.IsHidden(r):
			b.WriteRune(r)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}

// escapeJSON escapes the same characters in JSON text, where they occur only in strings, so
// that the value stays the same. Line feeds are kept.
func escapeJSON(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == '\n' || !escape.IsHidden(r):
			out = append(out, text[:size]...)
		case r > 0xffff:
			high, low := (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		text = text[size:]
	}
	return out
}
