package output

import (
	"bytes"
	"io"
	"slices"
	"unicode/utf8"
)

// Document returns the writer for documents that are written unchanged, such as CSV or YAML
// files of the server. On a terminal, it escapes what Escape escapes, except line feeds and
// tabs.
func (p *Printer) Document() io.Writer {
	if p.Terminal {
		return &plainWriter{to: p.Out}
	}
	return p.Out
}

type plainWriter struct {
	to   io.Writer
	tail []byte // the beginning of an incomplete character
}

// Write escapes and writes text.
func (w *plainWriter) Write(text []byte) (int, error) {
	whole := slices.Concat(w.tail, text)
	end := len(whole)
	for back := 1; back < utf8.UTFMax && back <= len(whole); back++ {
		if at := len(whole) - back; utf8.RuneStart(whole[at]) {
			if !utf8.FullRune(whole[at:]) {
				end = at
			}
			break
		}
	}
	var b bytes.Buffer
	for len(whole[:end]) > 0 {
		next := bytes.IndexAny(whole[:end], "\n\t")
		if next < 0 {
			next = end
		}
		b.WriteString(Escape(string(whole[:next])))
		if next < end {
			b.WriteByte(whole[next])
			next++
		}
		whole, end = whole[next:], end-next
	}
	w.tail = bytes.Clone(whole)
	if _, err := w.to.Write(b.Bytes()); err != nil {
		return 0, err
	}
	return len(text), nil
}
