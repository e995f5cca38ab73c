package policies

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/rules"
)

// whenFields are the fields of the conditions, in the order of conditions.Names.
var whenFields = [...]whenField{
	{Name: "when_path", Label: "Path", Hint: "/login or /admin/* or @secrets or not /static/*; with its case, without the query"},
	{Name: "when_method", Label: "Method", Hint: "POST"},
	{Name: "when_agent", Label: "Agent", Hint: "*sqlmap* or @scanners"},
	{Name: "when_host", Label: "Host", Hint: "shop.example.org or *.example.org"},
}

func whenFieldsOf(w conditions.When) []whenField {
	fields := slices.Clone(whenFields[:])
	for a := range w {
		fields[a].Text = strings.Join(w.Texts(conditions.Attribute(a)), "\n") //nolint:gosec // four
	}
	return fields
}

// maxWhen bounds the text of one field, in bytes.
const maxWhen = conditions.MaxPatterns * (conditions.MaxPatternLength + 2)

func whenFieldsFrom(values url.Values) ([]whenField, error) {
	fields := slices.Clone(whenFields[:])
	for i := range fields {
		if fields[i].Text = strings.TrimSpace(values.Get(fields[i].Name)); len(fields[i].Text) > maxWhen {
			return nil, form.ErrMalformed
		}
	}
	return fields, nil
}

// lists returns the patterns of each field.
func (d *draft) lists() (lists [4][]string) {
	for i, f := range d.When {
		for line := range strings.Lines(f.Text) {
			if line = strings.TrimSpace(line); line != "" {
				lists[i] = append(lists[i], line)
			}
		}
	}
	return lists
}

// readWhen parses the conditions into p, or records the error at its field.
func (d *draft) readWhen(p *rules.Policy) bool {
	var err error
	p.When, err = conditions.Parse(d.lists())
	var wrong *conditions.Error
	if errors.As(err, &wrong) {
		for i, name := range conditions.Names() {
			if pattern, is := strings.CutPrefix(wrong.Field, "when."+name); is {
				d.When[i].Error = format.Capital(strings.TrimSpace("pattern " + pattern + " " + wrong.Problem))
			}
		}
	}
	return err == nil
}

// HasConditions reports whether the draft has any condition, an outcome, a scope, distinct
// rules or derived keys.
func (d *draft) HasConditions() bool {
	return d.Outcome != "" || d.Scope != "" || d.Distinct != "" || d.Evidence != "" || d.Also != "" || slices.ContainsFunc(d.When, func(f whenField) bool { return f.Text != "" })
}

// maxEvidence bounds the text of the evidence, in bytes.
const maxEvidence = rules.MaxEvidence * 2048

// readEvidence parses the evidence, one item per line, into p, or records the error. Its points have a
// log of their own.
func (d *draft) readEvidence(p *rules.Policy) bool {
	var lines []string
	for line := range strings.Lines(d.Evidence) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	var err error
	p.Evidence, err = rules.ParseEvidence(lines)
	var wrong *rules.FieldError
	if errors.As(err, &wrong) {
		d.FieldErrors["evidence"] = evidenceProblem(lines, wrong)
		return false
	}
	switch isPoints := d.Algorithm.Name == algorithms.PointLog; {
	case len(lines) > 0 && !isPoints:
		d.Algorithm = algorithmFieldsOf(&rules.Policy{Algorithm: algorithms.PointLog})
	case len(lines) == 0 && isPoints:
		d.Algorithm = algorithmFieldsOf(&rules.Policy{Algorithm: algorithms.TimestampLog})
	}
	return true
}

// evidenceProblem says which line of the evidence is wrong.
func evidenceProblem(lines []string, wrong *rules.FieldError) string {
	number, isLine := strings.CutPrefix(wrong.Field, "evidence[")
	if at, err := strconv.Atoi(strings.TrimSuffix(number, "]")); isLine && err == nil && at < len(lines) {
		return "Line " + strconv.Itoa(at+1) + " " + wrong.Problem
	}
	return format.Capital(wrong.Problem)
}

// maxAlso bounds the text of the derived keys, in bytes.
const maxAlso = 4096

// readAlso parses the derived keys, one per line, into p, or records the error.
func (d *draft) readAlso(p *rules.Policy) bool {
	p.Also = nil
	for line := range strings.Lines(d.Also) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		derived, err := rules.ParseDerived(line)
		if err != nil {
			d.FieldErrors["also"] = format.Capital(err.Error())
			return false
		}
		p.Also = append(p.Also, derived)
	}
	return true
}
