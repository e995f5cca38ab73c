package notify

import (
	"fmt"
	"strings"

	"github.com/stint-dev/stint/internal/escape"
)

// Lines returns the texts of the items, or their subjects if there are several, each on its own
// lines and escaped by clean. The result has at most maxBytes bytes, which must be 64 or more.
// What is cut is visible: a first text that is too long ends with "...", and a last line has
// the number of notifications that are not shown. The link follows, unless it takes more than
// half of maxBytes.
func (m *Message) Lines(maxBytes int, clean func(string) string) string {
	var text strings.Builder
	shown := 0
	for _, n := range m.Items {
		raw, end := n.Text, ""
		if m.Total > 1 || raw == "" {
			raw = n.Subject
		}
		if shown > 0 {
			end = "\n" // of the previous line
		}
		line, room := clean(raw), maxBytes-text.Len()-len(end)-len(m.tail(shown+1, maxBytes))
		if len(line) > room {
			if shown > 0 {
				break
			}
			line = cleanWithin(raw, room, clean)
		}
		text.WriteString(end + line)
		shown++
	}
	return strings.TrimSpace(text.String() + m.tail(shown, maxBytes))
}

// tail returns what follows the texts if shown items are shown.
func (m *Message) tail(shown, maxBytes int) string {
	tail := ""
	if m.Total > shown {
		tail = fmt.Sprintf("\nand %d more", m.Total-shown)
	}
	if m.Link != "" && len(m.Link) <= maxBytes/2 {
		tail += "\n" + m.Link
	}
	return tail
}

// Title returns the subject on one line, escaped by clean, in at most maxBytes bytes. One that
// is too long ends with "...".
func (m *Message) Title(maxBytes int, clean func(string) string) string {
	raw := strings.ReplaceAll(m.Subject, "\n", " ")
	if line := clean(raw); len(line) <= maxBytes {
		return line
	}
	return cleanWithin(raw, maxBytes, clean)
}

// cleanWithin cuts raw so that the result of clean, which may be longer, has at most maxBytes
// bytes. It does not cut the result itself, since that could split an escape. It returns "" if
// there is no room for one character.
func cleanWithin(raw string, maxBytes int, clean func(string) string) string {
	for size := min(len(raw), maxBytes); size > 0; size -= size/8 + 1 {
		if line := clean(escape.Clip(raw, size)); len(line) <= maxBytes {
			return line
		}
	}
	return ""
}
