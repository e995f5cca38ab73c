package backtest

import (
	"encoding/csv"
	"io"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/stint-dev/stint/internal/escape"
)

// WriteJSON writes the whole report as one indented JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	if err := json.MarshalWrite(w, r, jsontext.WithIndent("  "), json.FormatNilSliceAsNull(false)); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// WriteCSV writes a line of column names and a line for each offender, the most
// refused first, and after a comparison also for each key that only the second
// plan refused. Text that a spreadsheet would run as a formula has an
// apostrophe before it.
func (r *Report) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	names := []string{"key", "requests", "allowed", "refused", "share", "first_refusal", "last_refusal", "first_policy", "first_rule", "paths", "agents", "statuses"}
	if r.Comparison != nil {
		names = append(names, "refused_against", "newly_refused", "newly_allowed")
	}
	if err := out.Write(names); err != nil {
		return err
	}
	changes := r.Comparison.byKey()
	listed := make(map[string]bool, len(r.Offenders))
	for _, o := range r.Offenders {
		listed[o.Key] = true
		if err := out.Write(r.offenderRow(o, changes)); err != nil {
			return err
		}
	}
	if r.Comparison != nil {
		for _, c := range r.Comparison.NewlyAllowedKeys {
			if listed[c.Key] {
				continue
			}
			if err := out.Write(freedRow(c)); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

// keyChanges are the changes of one key.
type keyChanges struct{ refused, allowed Change }

// byKey returns the changes by key; none of a nil comparison.
func (c *Comparison) byKey() map[string]keyChanges {
	changes := map[string]keyChanges{}
	if c == nil {
		return changes
	}
	for _, change := range c.NewlyRefusedKeys {
		changes[change.Key] = keyChanges{refused: change}
	}
	for _, change := range c.NewlyAllowedKeys {
		changes[change.Key] = keyChanges{refused: changes[change.Key].refused, allowed: change}
	}
	return changes
}

func (r *Report) offenderRow(o Offender, changes map[string]keyChanges) []string {
	row := []string{
		escape.CSV(o.Key), number(o.Requests), number(o.Allowed), number(o.Refused),
		strconv.FormatFloat(o.Ratio, 'f', 6, 64), o.First.Format(time.RFC3339Nano), o.Last.Format(time.RFC3339Nano),
		escape.CSV(o.FirstPolicy), escape.CSV(o.FirstRule), escape.CSV(traitsText(o.Paths)), escape.CSV(traitsText(o.Agents)), escape.CSV(traitsText(o.Statuses)),
	}
	if r.Comparison == nil {
		return row
	}
	against := o.Refused // a key without changes was refused alike
	change := changes[o.Key]
	switch {
	case change.refused.Changed > 0:
		against = change.refused.RefusedAgainst
	case change.allowed.Changed > 0:
		against = change.allowed.RefusedAgainst
	}
	return append(row, number(against), number(change.refused.Changed), number(change.allowed.Changed))
}

// freedRow is the row of a key that the first plan never refused.
func freedRow(c Change) []string {
	return []string{
		escape.CSV(c.Key), number(c.Requests), number(c.Requests), "0", "0", "", "", "", "", "", "", "",
		number(c.RefusedAgainst), "0", number(c.Changed),
	}
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
