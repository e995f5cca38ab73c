package notify

import (
	"fmt"
	"strings"

	"github.com/stint-dev/stint/internal/escape"
)

// Lines returns the texts of the items, or their subjects where there are several, each on
// lines of its own and made harmless by clean, in at most maxBytes, which are 64 or more. The
// reader sees what was left out: a first text that is too long ends with "...", and a last
// line says how many notifications there are beside those that are shown. It ends with the
// link, unless that takes more than half of maxBytes.
func (m *Message) Lines(maxBytes int, clean func(string) string) string {
	var text strings.Builder
	shown := 0
	for _, n := range m.Items {
		raw, end := n.Text, ""
		if m.Total > 1 || raw == "" {
			raw = n.Subject
		}
		if shown > 0 {
			end = "\n" // of the line before
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

// tail returns what follows the texts of the items where so many are shown.
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

// cleanWithin clips a text so far that it has at most maxBytes after clean, which makes it
// longer: what clean has written could be cut within one of its characters. It returns ""
// where not even one character has room.
func cleanWithin(raw string, maxBytes int, clean func(string) string) string {
	for size := min(len(raw), maxBytes); size > 0; size -= size/8 + 1 {
		if line := clean(escape.Clip(raw, size)); len(line) <= maxBytes {
			return line
		}
	}
	return ""
}
