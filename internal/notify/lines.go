package notify

import (
	"fmt"
	"strings"

	"github.com/stint-dev/stint/internal/escape"
)

// Lines returns the texts of the items, or their subjects where there are several, each on
// lines of its own and made harmless by clean, in at most maxBytes. The reader sees what was
// left out: a first text that is too long ends with "...", and a last line says how many
// notifications there are beside those that are shown. It ends with the link.
func (m *Message) Lines(maxBytes int, clean func(string) string) string {
	var text strings.Builder
	shown := 0
	for _, n := range m.Items {
		raw := n.Text
		if m.Total > 1 || raw == "" {
			raw = n.Subject
		}
		line := clean(raw)
		if text.Len()+len(line) > maxBytes {
			if shown > 0 {
				break
			}
			line = cleanWithin(raw, maxBytes, clean)
		}
		text.WriteString(line + "\n")
		shown++
	}
	if m.Total > shown {
		fmt.Fprintf(&text, "and %d more\n", m.Total-shown)
	}
	if m.Link != "" {
		text.WriteString(m.Link + "\n")
	}
	return strings.TrimSpace(text.String())
}

// cleanWithin clips a text so far that it has at most maxBytes after clean, which makes it
// longer: what clean has written could be cut within one of its characters.
func cleanWithin(raw string, maxBytes int, clean func(string) string) string {
	for size := min(len(raw), maxBytes); ; size -= size/8 + 1 {
		if line := clean(escape.Clip(raw, size)); len(line) <= maxBytes || size < 16 {
			return line
		}
	}
}
