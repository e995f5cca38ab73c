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

// whenFields are the fields of the conditions. The last one has the attributes that have no field.
var whenFields = [...]whenField{
	{Name: "when_path", Label: "Path", Hint: "/login or /admin/* or @secrets or not /static/*; with its case, without the query"},
	{Name: "when_method", Label: "Method", Hint: "POST"},
	{Name: "when_agent", Label: "Agent", Hint: "*sqlmap* or @scanners"},
	{Name: "when_host", Label: "Host", Hint: "shop.example.org or *.example.org"},
	{Name: whenOther, Label: "Other parts of the request: scheme, ja4, country, asn, bot, category, verified, header:NAME, query:NAME, cookie:NAME", Hint: "country NL or header:accept-language not * or category ai-training"},
}

const whenOther = "when_other"

// attribute returns the name of the field's attribute.
func (f whenField) attribute() string { return strings.TrimPrefix(f.Name, "when_") }

func whenFieldsOf(w conditions.When) []whenField {
	fields := slices.Clone(whenFields[:])
	for _, a := range w.Attributes() {
		texts := w.Texts(a)
		i := slices.IndexFunc(fields, func(f whenField) bool { return f.attribute() == a.String() })
		if i < 0 {
			i = len(fields) - 1
			for j := range texts {
				texts[j] = a.String() + " " + texts[j]
			}
		}
		fields[i].Text = strings.TrimPrefix(fields[i].Text+"\n"+strings.Join(texts, "\n"), "\n")
	}
	return fields
}

// NewPath returns the address of a new policy with conditions, "" if no request can meet them.
func NewPath(texts conditions.Texts) string {
	when, err := conditions.Parse(texts)
	if err != nil {
		return ""
	}
	values := url.Values{}
	for _, f := range whenFieldsOf(when) {
		if f.Text != "" {
			values.Set(f.Name, f.Text)
		}
	}
	return newPolicyPath + "?" + values.Encode()
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

// texts returns the patterns of each attribute.
func (d *draft) texts() conditions.Texts {
	all := conditions.Texts{}
	for _, f := range d.When {
		for line := range strings.Lines(f.Text) {
			if line = strings.TrimSpace(line); line == "" {
				continue
			}
			name := f.attribute()
			if f.Name == whenOther {
				name, line, _ = strings.Cut(line, " ")
				line = strings.TrimSpace(line)
			}
			all[name] = append(all[name], line)
		}
	}
	return all
}

// readWhen parses the conditions into p, or records the error at its field.
func (d *draft) readWhen(p *rules.Policy) bool {
	var err error
	p.When, err = conditions.Parse(d.texts())
	var wrong *conditions.Error
	if errors.As(err, &wrong) {
		name, pattern, _ := strings.Cut(strings.TrimPrefix(wrong.Field, "when."), "[")
		i := slices.IndexFunc(d.When, func(f whenField) bool { return f.attribute() == name })
		if pattern != "" {
			pattern = "[" + pattern
		}
		if i < 0 {
			i, pattern = len(d.When)-1, "of "+name+" "+pattern
		}
		d.When[i].Error = format.Capital(strings.Join(strings.Fields("pattern "+pattern+" "+wrong.Problem), " "))
	}
	return err == nil
}

// HasConditions reports whether the draft has any condition.
func (d *draft) HasConditions() bool {
	return d.InAttack || slices.ContainsFunc(d.When, func(f whenField) bool { return f.Text != "" })
}

// CountsOther reports whether the draft counts anything but the requests of its keys: outcomes, distinct
// values, points of evidence, or for derived keys too.
func (d *draft) CountsOther() bool {
	return d.Outcome != "" || d.Scope != "" || d.Distinct != "" || d.Evidence != "" || d.Also != ""
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
