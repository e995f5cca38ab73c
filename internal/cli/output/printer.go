// Package output prints answers: tables that fit the terminal for people, JSON and CSV for
// programs. Text chosen by attackers is escaped in all of them.
package output

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/mattn/go-runewidth"
)

// Format is how answers are printed.
type Format string

// The formats.
const (
	Table Format = "table"
	JSON  Format = "json"
	CSV   Format = "csv"
	// YAML is only the name of a format. Its Printer has the format JSON and the field YAML
	// set.
	YAML Format = "yaml"
)

// ParseFormat reads the name of a format.
func ParseFormat(text string) (Format, error) {
	switch f := Format(text); f {
	case Table, JSON, YAML, CSV:
		return f, nil
	}
	return "", fmt.Errorf("unknown output format %q; use table, json, yaml or csv", text)
}

// Printer prints answers to Out.
type Printer struct {
	Out    io.Writer
	Format Format
	// YAML makes the Printer write YAML in place of JSON.
	YAML bool
	// Width is the number of columns that tables must fit into; 0 means any.
	Width int
	// Terminal means that Out is a terminal. Then CSV, too, must not contain anything that
	// moves the cursor.
	Terminal bool
	Now      time.Time
}

// Column is one property of a T.
type Column[T any] struct {
	// Name is the column's name in CSV, as in the API.
	Name string
	// Head is its name in a table, which omits the column if Head is empty.
	Head  string
	Cell  func(T) Cell
	Right bool // aligned right, for numbers
	Cut   bool // may be cut in the middle to fit the terminal
	Drop  int  // omitted if the terminal is narrow, largest first, or if no row needs it; 0 never
	// Usual is what the column shows of most items. A table in which all rows show it, or
	// nothing, does not need the column.
	Usual string
}

// List prints items: one row each, or an array in JSON.
func List[T any](p *Printer, items []T, columns []Column[T]) error {
	switch p.Format {
	case JSON:
		if items == nil {
			items = []T{}
		}
		return p.JSON(items)
	case CSV:
		return writeCSV(p, items, columns)
	default:
		return writeTable(p, items, columns)
	}
}

// One prints one item: a line for each property that is not empty, an object in JSON, or
// a row in CSV.
func One[T any](p *Printer, item T, columns []Column[T]) error {
	switch p.Format {
	case JSON:
		return p.JSON(item)
	case CSV:
		return writeCSV(p, []T{item}, columns)
	}
	widest := 0
	for _, c := range columns {
		widest = max(widest, runewidth.StringWidth(c.Head))
	}
	for _, c := range columns {
		shown := c.Cell(item).shown(p.Now)
		if c.Head == "" || shown == "" {
			continue
		}
		if _, err := fmt.Fprintf(p.Out, "%s  %s\n", runewidth.FillRight(c.Head, widest), shown); err != nil {
			return err
		}
	}
	return nil
}

// Sayf prints a line for people, and nothing in the other formats. Its arguments must be
// escaped already.
func (p *Printer) Sayf(format string, args ...any) {
	if p.Format == Table {
		fmt.Fprintf(p.Out, format+"\n", args...)
	}
}

// JSON prints v as indented JSON, or as YAML.
func (p *Printer) JSON(v any) error {
	text, err := json.Marshal(v, jsontext.WithIndent("  "), json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("printing JSON: %w", err)
	}
	return p.WriteJSON(text)
}

// JSONLine prints v as one line of JSON, or as a document of YAML, for streams.
func (p *Printer) JSONLine(v any) error {
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("printing JSON: %w", err)
	}
	if p.YAML {
		if _, err := io.WriteString(p.Out, "---\n"); err != nil {
			return err
		}
	}
	return p.WriteJSON(text)
}

func writeCSV[T any](p *Printer, items []T, columns []Column[T]) error {
	w := csv.NewWriter(p.Out)
	row := make([]string, len(columns))
	for i, c := range columns {
		row[i] = c.Name
	}
	if err := w.Write(row); err != nil {
		return err
	}
	for _, item := range items {
		for i, c := range columns {
			row[i] = c.Cell(item).csv()
			if p.Terminal {
				row[i] = Escape(row[i])
			}
		}
		if err := w.Write(row); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

func writeTable[T any](p *Printer, items []T, columns []Column[T]) error {
	var g grid
	var shown []Column[T]
	for _, c := range columns {
		isNeeded := c.Drop == 0 || slices.ContainsFunc(items, func(item T) bool {
			shown := c.Cell(item).shown(p.Now)
			return shown != "" && shown != c.Usual
		})
		if c.Head != "" && isNeeded {
			shown = append(shown, c)
			g.columns = append(g.columns, gridColumn{head: c.Head, right: c.Right, cut: c.Cut, drop: c.Drop})
		}
	}
	for _, item := range items {
		row, brief := make([]string, len(shown)), make([]string, len(shown))
		for i, c := range shown {
			cell := c.Cell(item)
			row[i], brief[i] = cell.shown(p.Now), cell.brief(p.Now)
		}
		g.rows, g.brief = append(g.rows, row), append(g.brief, brief)
	}
	var b bytes.Buffer
	for _, line := range g.render(p.Width) {
		b.WriteString(line)
		b.WriteByte('\n')
	}
	_, err := p.Out.Write(b.Bytes())
	return err
}
