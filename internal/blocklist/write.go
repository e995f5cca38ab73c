package blocklist

import (
	"encoding/csv"
	"io"
	"reflect"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/wire"
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

// exportedBlock is what an export holds of a block. Its fields are the columns of a table.
type exportedBlock struct {
	Pattern   string `json:"pattern"`
	Reason    string `json:"reason"`
	ExpiresAt string `json:"expires_at,omitzero"`
	Source    string `json:"source"`
	Author    string `json:"author"`
	CreatedAt string `json:"created_at"`
	Scope     string `json:"scope,omitzero"` // that of the terms, where files have it
	EndedAt   string `json:"ended_at,omitzero"`
	EndedBy   string `json:"ended_by,omitzero"`
	ID        string `json:"id"`
	// Sources are the names of all that hold it; an import takes and leaves them.
	Sources []string `json:"sources,omitempty"`
	wire.EntryTerms
	Kind string `json:"kind,omitzero"` // only of an exemption
}

// exported are the fields of exportedBlock, and header their names.
var exported, header = func() (fields []reflect.StructField, names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[exportedBlock]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			fields, names = append(fields, f), append(names, name)
		}
	}
	return fields, names
}()

// columnsOf returns how many columns a table of a kind has: only exemptions have the last.
func columnsOf(isExemption bool) int {
	if isExemption {
		return len(header)
	}
	return len(header) - 1
}

// Write adds an entry of the same kind as those before, with the names of its sources. CSV and JSON say of exemptions what they
// are, so that no import blocks them. Entries that have ended or that have a scope or an action, and exemptions,
// are left out of a plain list, whose readers would refuse every check.
func (w *Writer) Write(b *blocks.Entry, sources []string) error {
	isExemption := b.Kind == blocks.Exemption
	if w.format == Plain && (b.EntryTerms != (wire.EntryTerms{}) || b.End != nil || isExemption) {
		return nil
	}
	row := exportedBlock{b.Pattern.String(), b.Reason, instant(b.Expires), string(b.Source), b.Author, instant(b.Created.Time()), b.ScopeOfChecks(), instant(b.Ended()), b.EndedBy(), b.ID, sources, b.EntryTerms, ""}
	if isExemption {
		row.Kind = string(b.Kind)
	}
	first := !w.any
	w.any = true
	switch w.format {
	case CSV:
		n := columnsOf(isExemption)
		if first {
			if err := w.table.Write(header[:n]); err != nil {
				return err
			}
		}
		cells, of := make([]string, n), reflect.ValueOf(&row).Elem()
		for i := range cells {
			switch v := of.FieldByIndex(exported[i].Index); v.Kind() {
			case reflect.String:
				cells[i] = escape.CSV(v.String())
			default:
				cells[i] = escape.CSV(strings.Join(sources, ", "))
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
			if err := w.table.Write(header[:columnsOf(false)]); err != nil {
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
