package reports

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/phrase"
)

// WriteJSON writes a document as JSON.
func WriteJSON(w io.Writer, d *Document) error {
	return json.MarshalWrite(w, d, json.FormatNilSliceAsNull(false), jsontext.WithIndent("  "))
}

// WriteCSV writes a document as rows of section, name, policy, rule, value and
// note. Names come from callers; none is taken for a formula by a spreadsheet.
func WriteCSV(w io.Writer, d *Document) error {
	c := csv.NewWriter(w)
	row := func(section, name, policy, rule string, value int64, note string) {
		_ = c.Write([]string{section, escape.CSV(name), escape.CSV(policy), escape.CSV(rule), strconv.FormatInt(value, 10), escape.CSV(note)}) // kept by the writer
	}
	_ = c.Write([]string{"section", "name", "policy", "rule", "value", "note"})
	for _, t := range d.rows() {
		note := ""
		if t.Before != nil {
			note = fmt.Sprintf("%d before", *t.Before)
		}
		row("totals", t.Name, "", "", t.Value, note)
	}
	for _, o := range d.Top {
		row("top offenders", o.Key, o.Policy, o.RefusedBy, o.Offences, joined(fmt.Sprintf("%d allowed", o.Allowed), o.Origin))
	}
	for _, o := range d.New {
		row("new offenders", o.Key, "", "", o.Offences, o.Origin)
	}
	for _, r := range append(append([]Rule{}, d.Rules...), d.Silent...) {
		row("rules", r.Kind, r.Policy, r.Rule, r.Refused, phrase.Count(r.Keys, "key"))
	}
	for _, r := range d.Shadow {
		row("shadow rules", r.Kind, r.Policy, r.Rule, r.WouldRefuse, phrase.Count(r.Keys, "key"))
	}
	for _, p := range d.Traffic {
		row("allowed", p.At.Format(time.RFC3339), "", "", p.Allowed, "")
		row("limited", p.At.Format(time.RFC3339), "", "", p.Limited, "")
		row("blocked", p.At.Format(time.RFC3339), "", "", p.Blocked, "")
		row("challenged", p.At.Format(time.RFC3339), "", "", p.Challenged, "")
	}
	for _, text := range d.Attention {
		row("attention", "", "", "", 1, text)
	}
	c.Flush()
	return c.Error()
}

// joined joins two notes of which the second may be empty.
func joined(first, second string) string {
	if second == "" {
		return first
	}
	return first + "; " + second
}

// totalRow is one figure beside that of the period before.
type totalRow struct {
	Name   string
	Value  int64
	Before *int64
}

func (d *Document) rows() []totalRow {
	figures := func(t *Totals) []int64 {
		return []int64{t.Allowed, t.Limited, t.Blocked, t.Challenged, t.Unavailable, t.ShadowLimited, t.Offenders, t.Keys}
	}
	names := []string{"Allowed", "Limited by a rule", "Blocked", "Challenged", "Errors", "Would be limited (shadow)", "Keys with offences", "Keys seen, estimated"}
	rows := make([]totalRow, len(names))
	for i, value := range figures(&d.Totals) {
		rows[i] = totalRow{Name: names[i], Value: value}
		if d.Before != nil {
			before := figures(d.Before)[i]
			rows[i].Before = &before
		}
	}
	return rows
}

//go:embed document.html.tmpl
var pageText string

var page = template.Must(template.New("document").Funcs(template.FuncMap{
	"count":   grouped,
	"percent": func(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + "%" },
	"date":    func(t time.Time) string { return t.UTC().Format("Mon 2 Jan 2006") },
	"time":    func(t time.Time) string { return t.UTC().Format("2 Jan 15:04") },
	"visible": visible,
}).Parse(pageText))

// WriteHTML writes a document as one page that needs nothing else.
func WriteHTML(w io.Writer, d *Document) error {
	return page.Execute(w, struct {
		*Document
		Figures []totalRow
		Chart   chart
	}{d, d.rows(), chartOf(d.Traffic)})
}

func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// visible spells out the characters of a key that change direction or cannot
// be seen.
func visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "[U+%04X]", r)
		}
	}
	return b.String()
}
