package blocklist

import (
	"encoding/csv"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/keys"
)

// Writer writes blocks as Read reads them. See NewWriter.
type Writer struct {
	to     io.Writer
	format Format
	table  *csv.Writer
	any    bool
}

// NewWriter returns a writer of a format; Close ends the file.
func NewWriter(to io.Writer, format Format) *Writer {
	w := &Writer{to: to, format: format}
	if format == CSV {
		w.table = csv.NewWriter(to)
	}
	return w
}

var exported = []string{"pattern", "reason", "expires_at", "source", "author", "created_at", "scope", "ended_at", "ended_by", "id", "sources", "action"}

// exportedBlock is what an export holds of a block.
type exportedBlock struct {
	Pattern   string `json:"pattern"`
	Reason    string `json:"reason"`
	ExpiresAt string `json:"expires_at,omitzero"`
	Source    string `json:"source"`
	Author    string `json:"author"`
	CreatedAt string `json:"created_at"`
	Scope     string `json:"scope,omitzero"`
	EndedAt   string `json:"ended_at,omitzero"`
	EndedBy   string `json:"ended_by,omitzero"`
	ID        string `json:"id"`
	// Sources are the names of all that hold it; an import takes and leaves them.
	Sources []string `json:"sources,omitempty"`
	Action  string   `json:"action,omitzero"`
	Kind    string   `json:"kind,omitzero"` // only of an exemption
}

// Write adds an entry of the same kind as those before, with the names of its sources. CSV and JSON say of exemptions what they
// are, so that no import blocks them. Entries that have ended or that have a scope or an action, and exemptions,
// are left out of a plain list, whose readers would refuse every check.
func (w *Writer) Write(b *blocks.Entry, sources []string) error {
	isExemption := b.Kind == blocks.Exemption
	if w.format == Plain && (b.Scope != "" || b.Action != "" || b.End != nil || isExemption) {
		return nil
	}
	row := exportedBlock{b.Pattern.String(), b.Reason, instant(b.Expires), string(b.Source), b.Author, instant(b.Created.Time()), b.ScopeOfChecks(), instant(b.Ended()), b.EndedBy(), b.ID, sources, string(b.Action), ""}
	if isExemption {
		row.Kind = string(b.Kind)
	}
	first := !w.any
	w.any = true
	switch w.format {
	case CSV:
		header, cells := exported, []string{escape.CSV(row.Pattern), escape.CSV(row.Reason), row.ExpiresAt, row.Source, escape.CSV(row.Author), row.CreatedAt, row.Scope, row.EndedAt, escape.CSV(row.EndedBy), row.ID, escape.CSV(strings.Join(row.Sources, ", ")), row.Action}
		if isExemption {
			header, cells = append(slices.Clone(header), "kind"), append(cells, row.Kind)
		}
		if first {
			if err := w.table.Write(header); err != nil {
				return err
			}
		}
		return w.table.Write(cells)
	case JSON:
		before := ",\n"
		if first {
			before = "[\n"
		}
		if _, err := io.WriteString(w.to, before); err != nil {
			return err
		}
		return json.MarshalWrite(w.to, row)
	}
	_, err := io.WriteString(w.to, plainLine(row.Pattern)+"\n")
	return err
}

// plainLine writes a pattern so that it is read back whatever it holds.
func plainLine(pattern string) string {
	kind, _, hasKind := strings.Cut(pattern, ":")
	needsKind := pattern != "*" && !(hasKind && keys.IsUsualKind(kind))
	if needsKind || strings.ContainsAny(pattern[:1], `#;"`) || strings.ContainsFunc(pattern, unicode.IsSpace) {
		quoted, err := json.Marshal(pattern)
		if err == nil { // a pattern is valid UTF-8
			return string(quoted)
		}
	}
	return pattern
}

func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// Close ends the file; it does not close what lies beneath.
func (w *Writer) Close() error {
	switch w.format {
	case CSV:
		if !w.any {
			if err := w.table.Write(exported); err != nil {
				return err
			}
		}
		w.table.Flush()
		return w.table.Error()
	case JSON:
		end := "\n]\n"
		if !w.any {
			end = "[]\n"
		}
		_, err := io.WriteString(w.to, end)
		return err
	}
	return nil
}
