package policies

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/rules"
)

// draft is the form of a policy: texts that may be invalid, each with its error.
type draft struct {
	Name        string
	Expect      etag.Tag // the edited state, etag.New for a new policy
	Mode        string
	Rows        []ruleRow
	Paste       string // a stack in one line, which replaces Rows
	Match       []matchRow
	When        []whenField
	InAttack    bool
	Outcome     string // whose reports are counted, "" to count checks
	Scope       string // refuse only checks of this scope, "" for every check
	Distinct    string // name of the value whose distinct values are counted, "" to count requests
	Evidence    string // for what requests get the points that the rules limit, one item per line; "" to count requests
	Also        string // the derived keys that each request also counts for, one per line
	Amounts     amountFields
	Algorithm   algorithmFields
	OnFailure   string
	OnLimit     string // "" to refuse, or as in the API
	Escalation  escalationFields
	AsDraft     bool             // save it as the draft of the policy, which goes on
	Ask         string           // name to type for confirmation, "" for none
	FieldErrors form.FieldErrors // by field, except for errors of rows
}

type ruleRow struct {
	Limit, Window string
	Windows       []form.Choice
	Error         string
	Warning       string // allowed but probably a mistake
	Pace          string
	Change        string // "was 20", "new", "" if unchanged
}

type matchRow struct{ Text, Means, Error string }

// whenField contains the patterns for one attribute of a request, one per line.
type whenField struct{ Name, Label, Hint, Text, Error string }

type escalationFields struct {
	On                                                           bool
	Threshold, Window, Duration, Factor, MaxDuration, DecayAfter string
	ChallengeLevels                                              string // "" for 0
}

// commonWindows are the windows that a rule's field offers in addition to its own.
var commonWindows = []time.Duration{
	time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour,
}

func windowChoices(own string) []form.Choice {
	all := slices.Clone(commonWindows)
	if r, err := rules.ParseRule("1/" + own); err == nil && r.Calendar == "" && !slices.Contains(all, r.Window) {
		all = append(all, r.Window)
		slices.Sort(all)
	}
	choices := make([]form.Choice, len(all))
	for i, w := range all {
		choices[i] = form.Choice{Value: rules.FormatWindow(w), Word: format.WindowWords(w)}
	}
	return append(choices, form.Choice{Value: algorithms.CalendarDay, Word: "day of the calendar"}, form.Choice{Value: algorithms.CalendarMonth, Word: "month of the calendar"})
}

// newDraft returns the form of a new policy.
func newDraft() *draft {
	d := &draft{Mode: string(rules.Shadow), OnFailure: string(rules.FailLocal), Match: []matchRow{{}}, FieldErrors: form.FieldErrors{}}
	d.Algorithm = algorithmFieldsOf(&rules.Policy{Algorithm: algorithms.TimestampLog})
	for _, text := range []string{"20/1m", "800/1d"} {
		r, err := rules.ParseRule(text)
		if err == nil {
			d.addRule(r)
		}
	}
	d.Escalation = defaultEscalation
	d.When = whenFieldsOf(conditions.When{})
	return d
}

// defaultEscalation contains the initial fields of an escalation.
var defaultEscalation = escalationFields{Threshold: "1000", Window: "10m", Duration: "1h", Factor: "2", MaxDuration: "3d", DecayAfter: "2d"}

func (d *draft) addRule(r rules.Rule) {
	limit, _, _ := strings.Cut(r.String(), "/")
	limit, _, _ = strings.Cut(limit, " ") // as it is written, 1M tokens: a narrow field shows 1000000 as 100000
	_, window, _ := strings.Cut(r.String(), "/")
	window, _, _ = strings.Cut(window, " ")
	d.Rows = append(d.Rows, ruleRow{Limit: limit, Window: window})
}

// draftOf returns the form of an existing policy.
func draftOf(p *rules.Policy) *draft {
	d := &draft{Name: p.Name, Outcome: p.Outcome, Scope: p.Scope, Distinct: p.Rules.Distinct(), Expect: rules.TagOf(p), Mode: string(p.Mode), OnFailure: string(p.OnFailure), OnLimit: string(p.OnLimit), Escalation: defaultEscalation, FieldErrors: form.FieldErrors{}}
	d.Algorithm, d.Amounts = algorithmFieldsOf(p), amountFieldsOf(p)
	for _, r := range p.Rules.Windows() {
		d.addRule(r)
	}
	for _, m := range p.Match {
		d.Match = append(d.Match, matchRow{Text: m.String()})
	}
	d.InAttack = p.InAttack
	d.When, d.Also = whenFieldsOf(p.When), strings.Join(p.Also.Strings(), "\n")
	d.Evidence = strings.Join(p.Evidence.Strings(), "\n")
	if e := p.Escalation; e != nil {
		d.Escalation = escalationFields{
			On: true, Threshold: strconv.Itoa(e.Threshold), Window: rules.FormatDuration(e.Window), Duration: rules.FormatDuration(e.Duration),
			Factor: strconv.FormatFloat(e.Factor, 'g', -1, 64), MaxDuration: rules.FormatDuration(e.MaxDuration), DecayAfter: rules.FormatDuration(e.DecayAfter),
		}
		if e.ChallengeLevels > 0 {
			d.Escalation.ChallengeLevels = strconv.Itoa(e.ChallengeLevels)
		}
	}
	return d
}

// maxRows bounds the rules and the patterns of a form.
const maxRows = 100

// readDraft reads the form of a policy and applies its button to the rows. It does not
// validate. before is the active version, nil for a new policy.
func readDraft(values url.Values, before *rules.Policy) (*draft, error) {
	d := &draft{
		Algorithm: algorithmFieldsFrom(values, before), Amounts: amountFieldsFrom(values),
		Name: strings.TrimSpace(values.Get("name")), Mode: values.Get("mode"), OnFailure: values.Get("on_failure"), OnLimit: values.Get("on_limit"),
		Paste: strings.TrimSpace(values.Get("stack")), Outcome: strings.TrimSpace(values.Get("outcome")), Distinct: strings.TrimSpace(values.Get("distinct")), Scope: strings.TrimSpace(values.Get("scope")), FieldErrors: form.FieldErrors{},
		InAttack: values.Get("attack") == "on",
	}
	var err error
	if d.Expect, err = site.Expected(values); err != nil {
		return nil, err
	}
	limits, windows, match := values["limit"], values["window"], values["match"]
	if len(limits) != len(windows) || len(limits) > maxRows || len(match) > maxRows {
		return nil, form.ErrMalformed
	}
	for i := range limits {
		d.Rows = append(d.Rows, ruleRow{Limit: strings.TrimSpace(limits[i]), Window: windows[i]})
	}
	for _, text := range match {
		d.Match = append(d.Match, matchRow{Text: strings.TrimSpace(text)})
	}
	get := func(name string) string { return strings.TrimSpace(values.Get(name)) }
	d.Escalation = escalationFields{
		On: get("escalation") == "on", Threshold: get("threshold"), Window: get("offence_window"), Duration: get("duration"),
		Factor: get("factor"), MaxDuration: get("max_duration"), DecayAfter: get("decay_after"), ChallengeLevels: get("challenge_levels"),
	}
	if d.Also = strings.TrimSpace(values.Get("also")); len(d.Also) > maxAlso {
		return nil, form.ErrMalformed
	}
	if d.Evidence = strings.TrimSpace(values.Get("evidence")); len(d.Evidence) > maxEvidence {
		return nil, form.ErrMalformed
	}
	if d.When, err = whenFieldsFrom(values); err != nil {
		return nil, err
	}
	d.act(values.Get("do"), before)
	return d, nil
}

// act applies a button of the form: "add-rule", "drop-rule-2", "add-match", "drop-match-0",
// "shadow". In shadow, a policy that enforces gets a draft beside it.
func (d *draft) act(do string, before *rules.Policy) {
	switch do {
	case "add-rule":
		d.Rows = append(d.Rows, ruleRow{Window: "1h"})
	case "add-match":
		d.Match = append(d.Match, matchRow{})
	case "shadow":
		if d.AsDraft = before != nil && before.Mode == rules.Enforce; !d.AsDraft {
			d.Mode = string(rules.Shadow)
		}
	}
	if at, err := strconv.Atoi(strings.TrimPrefix(do, "drop-rule-")); err == nil && at >= 0 && at < len(d.Rows) {
		d.Rows = slices.Delete(d.Rows, at, at+1)
	}
	if at, err := strconv.Atoi(strings.TrimPrefix(do, "drop-match-")); err == nil && at >= 0 && at < len(d.Match) {
		d.Match = slices.Delete(d.Match, at, at+1)
	}
}

// policy returns the policy of the draft, or nil with the errors recorded in the draft. before
// is the edited version, nil for a new policy.
func (d *draft) policy(parser keys.Parser, before *rules.Policy) *rules.Policy {
	p := &rules.Policy{Name: d.Name, Outcome: d.Outcome, Scope: d.Scope, InAttack: d.InAttack, Mode: rules.Mode(d.Mode), OnFailure: rules.OnFailure(d.OnFailure), OnLimit: rules.OnLimit(d.OnLimit)}
	good := d.takePaste() && d.readMatch(parser, p)
	good = d.readDistinct() && good
	good = d.readUnit() && good
	good = d.readWhen(p) && good
	good = d.readEvidence(p) && good
	good = d.readAlso(p) && good
	good = d.readAlgorithm(p) && good
	good = d.readRows(p, before) && good
	good = d.readAmounts(p) && good
	good = d.readEscalation(p) && good
	if !good {
		return nil
	}
	var field *rules.FieldError
	if err := p.Validate(); errors.As(err, &field) {
		if strings.HasPrefix(field.Field, "evidence[") {
			d.FieldErrors["evidence"] = evidenceProblem(p.Evidence.Strings(), field)
			return nil
		}
		d.FieldErrors[field.Field] = format.Capital(field.Problem)
		return nil
	}
	return p
}

// takePaste replaces the rows by a pasted stack.
func (d *draft) takePaste() bool {
	if d.Paste == "" {
		return true
	}
	stack, err := rules.ParseStack(rules.SplitRules(d.Paste))
	if err != nil {
		d.FieldErrors["stack"] = format.Capital(err.Error())
		return false
	}
	d.Rows, d.Paste, d.Distinct = nil, "", stack.Distinct()
	if d.Amounts.Unit = stack.Unit(); stack.Concurrent() > 0 {
		d.Amounts.Concurrent = strconv.Itoa(stack.Concurrent())
	}
	if stack.CountsPoints() && d.Evidence == "" {
		d.FieldErrors["evidence"] = "Say for what a request gets points, as in 2 outcome not_found distinct path."
	}
	for _, r := range stack.Windows() {
		d.addRule(r)
	}
	return true
}

// matchMeans describes in words which keys a pattern of a policy selects.
func matchMeans(p keys.Pattern) string {
	if plan, is := rules.PlanOf(p); is && plan == "*" {
		return "every key that has a plan"
	} else if is {
		return "every key of the plan " + format.VisibleText(plan)
	}
	if p.Kind() != keys.FromOrigin {
		return format.PatternSize(p)
	}
	from := "the network AS"
	kind, name, _ := strings.Cut(p.String(), ":")
	if kind == "country" {
		from = "the country "
	}
	if _, known := keys.ExtentOf(p); !known {
		return "addresses of " + from + name
	}
	return "addresses of " + from + name + ": " + format.PatternSize(p)
}

func (d *draft) readMatch(parser keys.Parser, p *rules.Policy) bool {
	good := true
	for i := range d.Match {
		row := &d.Match[i]
		if row.Text == "" {
			continue
		}
		pattern, err := keys.Reading{Parser: parser, AnyKind: true}.Pattern(row.Text)
		if err != nil {
			row.Error, good = format.Capital(err.Error()), false
			continue
		}
		row.Means = matchMeans(pattern)
		p.Match = append(p.Match, pattern)
	}
	return good
}

// readRows parses the rules and describes each. It skips rows without a count.
func (d *draft) readRows(p *rules.Policy, before *rules.Policy) bool {
	good := true
	var read []rules.Rule
	of := map[rules.Rule]*ruleRow{}
	for i := range d.Rows {
		row := &d.Rows[i]
		row.Windows = windowChoices(row.Window)
		if row.Limit == "" {
			continue
		}
		r, err := rules.ParseRule(d.ruleText(row))
		if err != nil {
			row.Error, good = format.Capital(ruleProblem(err)), false
			continue
		}
		r = rules.Stack{r}.InZone(d.Amounts.TimeZone)[0]
		row.Pace, row.Change = format.Pace(r), changeOf(r, before)
		read, of[r] = append(read, r), row
	}
	r, isRule, isGood := d.concurrentRule()
	if good = isGood && good; isRule {
		read = append(read, r)
	}
	stack, err := rules.NewStack(read...)
	if err != nil {
		d.FieldErrors["rules"] = format.Capital(err.Error())
		return false
	}
	p.Rules = stack
	for _, w := range p.Warnings() {
		if row := of[w.Rule]; row != nil {
			_, why, _ := strings.Cut(w.Message, "can never refuse anyone: ")
			row.Warning = format.Capital(why)
		}
	}
	return good
}

// ruleText returns the rule of a row.
func (d *draft) ruleText(row *ruleRow) string {
	text := row.Limit
	switch {
	case d.Evidence != "":
		text += " points"
	case d.Amounts.Unit != "" && d.FieldErrors["unit"] == "":
		text += " " + d.Amounts.Unit
	}
	text += "/" + row.Window
	if d.Distinct != "" && d.FieldErrors["distinct"] == "" {
		text += " distinct " + d.Distinct
	}
	return text
}

// readDistinct validates the name of the value that the rules count.
func (d *draft) readDistinct() bool {
	if d.Distinct == "" {
		return true
	}
	if err := conditions.CheckValueName(d.Distinct); err != nil {
		d.FieldErrors["distinct"] = format.Capital(err.Error())
		return false
	}
	return true
}

// ruleProblem returns the problem of a rule without the rule's text, which is shown next to it.
func ruleProblem(err error) string {
	var problem *rules.Error
	if errors.As(err, &problem) {
		return "this rule " + problem.Problem
	}
	return err.Error()
}

// changeOf describes how a rule differs from the previous stack.
func changeOf(r rules.Rule, before *rules.Policy) string {
	if before == nil || slices.Contains(before.Rules, r) {
		return ""
	}
	for _, old := range before.Rules {
		if old.Window == r.Window && old.Calendar == r.Calendar && old.Distinct == r.Distinct {
			return "was " + phrase.Number(int64(old.Limit))
		}
	}
	return "new"
}

func (d *draft) readEscalation(p *rules.Policy) bool {
	blocks := p.OnLimit == rules.BlockOnLimit
	if blocks {
		d.Escalation.Threshold = "1"
	}
	l := d.Escalation
	if !l.On {
		if blocks {
			p.Escalation = rules.BlockAtOnce()
		}
		return true
	}
	e := &rules.Escalation{}
	good := true
	wrong := func(field, problem string) {
		d.FieldErrors["escalation."+field] = problem
		good = false
	}
	var err error
	if e.Threshold, err = rules.ParseCount(l.Threshold); err != nil {
		wrong("threshold", "Enter a whole number of offences, for example 5.")
	}
	if e.Factor, err = strconv.ParseFloat(l.Factor, 64); err != nil {
		wrong("factor", "Enter how many times longer, for example 2.")
	}
	if l.ChallengeLevels != "" {
		if e.ChallengeLevels, err = rules.ParseCount(l.ChallengeLevels); err != nil {
			wrong("challenge_levels", "Enter how many of the first blocks challenge, 0 to 10.")
		}
	}
	for _, f := range []struct {
		name, text string
		into       *time.Duration
	}{{"window", l.Window, &e.Window}, {"duration", l.Duration, &e.Duration}, {"max_duration", l.MaxDuration, &e.MaxDuration}, {"decay_after", l.DecayAfter, &e.DecayAfter}} {
		if *f.into, err = rules.ParseDuration(f.text); err != nil {
			wrong(f.name, format.Capital(err.Error()))
		}
	}
	p.Escalation = e
	return good
}

// EscalationErrors returns the errors of the escalation, in the order of its sentence.
func (d *draft) EscalationErrors() []string {
	var all []string
	for _, field := range []string{"threshold", "window", "duration", "factor", "max_duration", "decay_after", "challenge_levels"} {
		if m := d.FieldErrors["escalation."+field]; m != "" {
			all = append(all, m)
		}
	}
	return all
}
