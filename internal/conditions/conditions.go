// Package conditions holds the conditions of a policy on a request: patterns for its path,
// method, agent, headers and other attributes, and named lists of such patterns. An Index finds the policies whose conditions a request meets in one
// pass over each attribute, however many conditions there are.
package conditions

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Bounds of conditions and of the attributes of a request.
const (
	MaxPatterns      = 1000 // of one attribute of one policy
	MaxPatternLength = 200  // bytes
	MaxAttributes    = 32   // of one policy

	MaxPath   = 8192 // bytes, without the query
	MaxMethod = 32
	MaxAgent  = 2048
	MaxHost   = 255
	MaxValue  = 2048 // of a header, a parameter of the query or a cookie
)

// When is the conditions of a policy, in the order of their attributes. A request meets them if it
// meets the patterns of each attribute that has some: one of those without "not", unless there are
// none, and none of those with it. The zero value has no conditions.
type When []group

// group are the patterns of one attribute, at least one.
type group struct {
	attribute Attribute
	patterns  []Pattern
}

// IsZero reports whether there are no conditions.
func (w When) IsZero() bool { return len(w) == 0 }

// IsNarrow reports whether w selects requests by what they ask for: by a path or a parameter of the query.
// Conditions on who asks, on what clients send with each request (agents, headers and cookies) and on what
// is missing do not: they may select all requests of many clients.
func (w When) IsNarrow() bool {
	return slices.ContainsFunc(w, func(g group) bool {
		selects := slices.DeleteFunc(slices.Clone(g.patterns), func(p Pattern) bool { return p.isNot })
		if len(selects) == 0 || g.attribute != Path && g.attribute.index != queryIndex {
			return false
		}
		return g.attribute != Path || !slices.ContainsFunc(selects, Pattern.isAnyPath)
	})
}

// isAnyPath reports whether p matches every path.
func (p Pattern) isAnyPath() bool {
	return slices.ContainsFunc(p.globs, func(g glob) bool { return g.matches("/") && g.matches("/any") })
}

// of returns the patterns of an attribute.
func (w When) of(a Attribute) []Pattern {
	for _, g := range w {
		if g.attribute == a {
			return g.patterns
		}
	}
	return nil
}

// Attributes returns the attributes that have patterns, in their order.
func (w When) Attributes() []Attribute {
	all := make([]Attribute, len(w))
	for i, g := range w {
		all[i] = g.attribute
	}
	return all
}

// Meets reports whether r meets the conditions. An Index does the same for many policies at once.
func (w When) Meets(r *Request) bool {
	for _, g := range w {
		if _, _, met := firstMet(g.patterns, r, g.attribute); !met {
			return false
		}
	}
	return true
}

// Met is a pattern of a policy and the value of a request that met it.
type Met struct {
	Attribute string // the name of the part of the request, for example path
	Pattern   string
	Value     string // normalized, "" if it is not recorded or was not sent
}

// Describe says in words that the value met the pattern: path "/.env" is in the list secrets.
func (m Met) Describe() string {
	value := " "
	if m.Value != "" {
		value = fmt.Sprintf(" %q ", m.Value)
	}
	text, isNot := strings.CutPrefix(m.Pattern, notPrefix)
	if m.Pattern == missingPattern {
		return m.Attribute + " was not sent"
	}
	if name, isList := strings.CutPrefix(text, listPrefix); isList {
		verb := "is in"
		if isNot {
			verb = "is not in"
		}
		return m.Attribute + value + verb + " the list " + name
	}
	return fmt.Sprintf("%s%smet the condition %q", m.Attribute, value, m.Pattern)
}

// Met returns, for each attribute that has patterns, the first of them that r meets, and the value
// that met it. r must meet the conditions.
func (w When) Met(r *Request) []Met {
	var all []Met
	for _, g := range w {
		if p, value, met := firstMet(g.patterns, r, g.attribute); met {
			if g.attribute.isNamed() { // headers, queries and cookies have secrets
				value = ""
			}
			all = append(all, Met{g.attribute.String(), p.text, value})
		}
	}
	return all
}

// firstMet returns the first of the patterns of an attribute that a reading of r meets, and what
// met it. Of patterns with "not" only, it is the first. A reading of a path meets none if it meets
// one with "not", but the others may: spelling a path in another way must not evade a condition.
func firstMet(patterns []Pattern, r *Request, a Attribute) (first Pattern, value string, found bool) {
	for reading := range r.readings(a) {
		met, excluded := false, false
		if len(patterns) > 0 && !slices.ContainsFunc(patterns, func(p Pattern) bool { return !p.isNot }) {
			first, value, met = patterns[0], reading, true
		}
		for _, p := range patterns {
			matched, matches := p.find(r, reading)
			switch {
			case matches && p.isNot && reading == tooMany && p.text != missingPattern:
			case matches && p.isNot:
				excluded = true
			case matches && !met:
				first, value, met = p, matched, true
			}
		}
		if met && !excluded {
			return first, value, true
		}
	}
	return Pattern{}, "", false
}

// find returns what of r matches one of the pattern's globs: the reading of its attribute, or what
// was sent.
func (p Pattern) find(r *Request, reading string) (matched string, found bool) {
	if reading == missing || reading == tooMany {
		return "", reading == tooMany
	}
	low := lower(reading)
	if slices.ContainsFunc(p.globs, func(g glob) bool { return g.matches(reading) || g.ignoresCase && g.matches(low) }) {
		return reading, true
	}
	if p.globs[0].isSent {
		for _, sent := range r.sent() {
			if slices.ContainsFunc(p.globs, func(g glob) bool { return g.matches(sent) }) {
				return withoutQuery(sent), true
			}
		}
	}
	return "", false
}

// Texts returns the patterns of an attribute.
func (w When) Texts(a Attribute) []string {
	texts := []string{}
	for _, p := range w.of(a) {
		texts = append(texts, p.text)
	}
	return texts
}

// Texts are patterns by the name of their attribute.
type Texts = map[string][]string

// All returns the patterns of all attributes that have some.
func (w When) All() Texts {
	all := Texts{}
	for _, g := range w {
		all[g.attribute.String()] = w.Texts(g.attribute)
	}
	return all
}

// NamedTexts returns the patterns of headers, of parameters or of cookies, each behind its name and a
// space.
func (w When) NamedTexts(source string) []string {
	texts := []string{}
	for _, g := range w {
		if of, name := g.attribute.Source(); of == source {
			for _, p := range g.patterns {
				texts = append(texts, name+" "+p.text)
			}
		}
	}
	return texts
}

// Equal reports whether v has the same conditions in the same order.
func (w When) Equal(v When) bool {
	return slices.EqualFunc(w, v, func(g, h group) bool {
		return g.attribute == h.attribute && slices.EqualFunc(g.patterns, h.patterns, func(p, q Pattern) bool { return p.text == q.text })
	})
}

// Error says which pattern is wrong and what is allowed.
type Error struct {
	Field   string // for example "when.path[2]"
	Problem string
}

// Error returns one line that is safe to print.
func (e *Error) Error() string { return e.Field + " " + e.Problem }

// Parse parses the patterns of each attribute, sorts them, those with "not" last, and removes
// duplicates. An error is an *Error.
func Parse(texts Texts) (When, error) {
	if len(texts) > MaxAttributes {
		return nil, &Error{"when", fmt.Sprintf("has conditions on %d attributes; the most is %d", len(texts), MaxAttributes)}
	}
	var w When
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if len(texts[name]) == 0 {
			continue
		}
		field := "when." + name
		a, err := ParseAttribute(name)
		if err != nil {
			return nil, &Error{field, err.Error()}
		}
		if len(texts[name]) > MaxPatterns {
			return nil, &Error{field, fmt.Sprintf("has %d patterns; the most is %d", len(texts[name]), MaxPatterns)}
		}
		if len(w.of(a)) > 0 {
			return nil, &Error{field, "is there in another spelling too"}
		}
		patterns, err := parsePatterns(a, field, texts[name])
		if err != nil {
			return nil, err
		}
		w = append(w, group{a, patterns})
	}
	slices.SortFunc(w, func(g, h group) int { return g.attribute.compare(h.attribute) })
	return w, nil
}

func parsePatterns(a Attribute, field string, texts []string) (all []Pattern, err error) {
	for i, text := range texts {
		p, err := ParsePattern(a, text)
		if err != nil {
			return nil, &Error{fmt.Sprintf("%s[%d]", field, i), err.Error()}
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(p, q Pattern) int { return cmp.Or(order(p.isNot)-order(q.isNot), strings.Compare(p.text, q.text)) })
	all = slices.CompactFunc(all, func(p, q Pattern) bool { return p.text == q.text })
	for _, p := range all {
		if p.isNot && slices.ContainsFunc(all, func(q Pattern) bool { return notPrefix+q.text == p.text }) {
			return nil, &Error{field, "has a pattern and the same with not"}
		}
	}
	return all, nil
}

// order returns the place of patterns with or without "not".
func order(isNot bool) int {
	if isNot {
		return 1
	}
	return 0
}

// DescribeApplies says in a sentence to which requests a policy with these conditions applies.
// outcome and scope are those of the policy, "" for none. The result is "" without conditions and
// outcome.
func (w When) DescribeApplies(outcome, scope string) string {
	when, refuses := w.Describe(), ". Refuses every check of the key while one more report would not fit, in addition to the key's own policy."
	if scope != "" {
		refuses = ". Refuses the checks of the key in the scope " + scope + " while one more report would not fit, in addition to the key's own policy."
	}
	switch {
	case outcome != "" && when != "":
		return "Counts reports of " + outcome + " " + when + refuses
	case outcome != "":
		return "Counts reports of " + outcome + refuses
	case when != "":
		return "Applies " + when + ", in addition to the key's own policy."
	}
	return ""
}

var outcomePattern = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// NotFound is the outcome of a request for something that does not exist. Policies with it do not
// apply to verified crawlers, which follow old links.
const NotFound = "not_found"

// BotSpoofed is the outcome of a request of which two ways say that its bot is not the one that it says
// it is. The node charges it by itself.
const BotSpoofed = "bot_spoofed"

// CheckValueName returns an error unless name is a valid name of a value that a distinct rule
// counts. It has the form of an outcome. The error does not contain the name.
func CheckValueName(name string) error {
	if !outcomePattern.MatchString(name) {
		return errors.New("must be 1 to 64 of a-z, 0-9 and underscore, beginning with a letter, for example path or account")
	}
	return nil
}

// CheckScope returns an error unless name is a valid name of a scope. It has the form of an
// outcome. The error does not contain the name.
func CheckScope(name string) error {
	if !outcomePattern.MatchString(name) {
		return errors.New("must be 1 to 64 of a-z, 0-9 and underscore, beginning with a letter, for example login")
	}
	return nil
}

// CheckOutcome returns an error unless name is a valid name of an outcome: 1 to 64 of a-z, 0-9
// and underscore, beginning with a letter. The error does not contain the name.
func CheckOutcome(name string) error {
	if !outcomePattern.MatchString(name) {
		return errors.New("must be 1 to 64 of a-z, 0-9 and underscore, beginning with a letter, for example login_failed")
	}
	return nil
}

// Describe says in words when the policy applies: "if the path begins with /login and the method
// is POST". It is "" without conditions.
func (w When) Describe() string {
	var parts []string
	for _, g := range w {
		of := func(isNot bool, joiner string) {
			if text := describeAll(g.patterns, isNot, joiner); text != "" {
				parts = append(parts, "the "+g.attribute.Words()+" "+text)
			}
		}
		of(false, " or ")
		of(true, " and ")
	}
	if len(parts) == 0 {
		return ""
	}
	return "if " + strings.Join(parts, ", and ")
}

// describeAll says in words what the patterns with or without "not" match, "" if there are none.
func describeAll(patterns []Pattern, isNot bool, joiner string) string {
	patterns = slices.DeleteFunc(slices.Clone(patterns), func(p Pattern) bool { return p.isNot != isNot })
	const shown = 3
	var words []string
	for i, p := range patterns {
		if i == shown && len(patterns) > shown+1 {
			more := "matches one of %d more patterns"
			if isNot {
				more = "matches none of the %d more patterns"
			}
			words = append(words, fmt.Sprintf(more, len(patterns)-shown))
			break
		}
		words = append(words, p.describe())
	}
	return strings.Join(words, joiner)
}

// Each returns one When for each pattern of an attribute that has no "not", or one for all if there
// is none, with the patterns that have it, and the text of each. An index of these finds the
// patterns that match a value.
func (w When) Each(a Attribute) (each []When, texts []string) {
	var not []Pattern
	for _, p := range w.of(a) {
		if p.isNot {
			not = append(not, p)
		}
	}
	for _, p := range w.of(a) {
		if !p.isNot {
			one := When{{a, append([]Pattern{p}, not...)}}
			each, texts = append(each, one), append(texts, p.text)
		}
	}
	if len(each) == 0 && len(not) > 0 {
		each, texts = []When{{{a, not}}}, []string{strings.Join(w.Texts(a), ", ")}
	}
	return each, texts
}
