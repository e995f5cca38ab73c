// Package conditions holds the conditions of a policy on a request: patterns for its path,
// method, agent and host. An Index finds the policies whose conditions a request meets in one
// pass over each attribute, however many conditions there are.
package conditions

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Attribute is a part of a request to which a condition can apply.
type Attribute uint8

// The attributes.
const (
	Path Attribute = iota
	Method
	Agent
	Host

	attributeCount
)

// Names returns the names of the attributes, in the order of their numbers.
func Names() []string { return slices.Clone(names) }

var names = []string{"path", "method", "agent", "host"}

// String returns the name in the API and in policy files.
func (a Attribute) String() string { return names[a] }

// Bounds of conditions and of the attributes of a request.
const (
	MaxPatterns      = 1000 // of one attribute of one policy
	MaxPatternLength = 200  // bytes

	MaxPath   = 8192 // bytes, without the query
	MaxMethod = 32
	MaxAgent  = 2048
	MaxHost   = 255
)

// maxLength is the maximum length of each attribute.
var maxLength = [attributeCount]int{MaxPath, MaxMethod, MaxAgent, MaxHost}

// MaxLength returns the maximum length of the attribute's value, in bytes.
func (a Attribute) MaxLength() int { return maxLength[a] }

// When is the conditions of a policy. A request meets them if each attribute that has patterns
// matches at least one of them. The zero value has no conditions.
type When [attributeCount][]Pattern

// IsZero reports whether there are no conditions.
func (w When) IsZero() bool {
	for _, patterns := range w {
		if len(patterns) > 0 {
			return false
		}
	}
	return true
}

// Meets reports whether r meets the conditions. An Index does the same for many policies at once.
func (w When) Meets(r *Request) bool {
	for a, patterns := range w {
		if len(patterns) > 0 && !slices.ContainsFunc(patterns, func(p Pattern) bool { return p.isMetBy(r, Attribute(a)) }) {
			return false
		}
	}
	return true
}

// Met is a pattern of a policy and the value of a request that it matched.
type Met struct {
	Attribute string // the name of the part of the request, for example path
	Pattern   string
	Value     string // normalized, "" if it is not recorded
}

// Met returns, for each attribute that has patterns, the first of them that r matches, and what
// it matched. r must meet the conditions.
func (w When) Met(r *Request) []Met {
	var all []Met
	for a, patterns := range w {
		at := slices.IndexFunc(patterns, func(p Pattern) bool { return p.isMetBy(r, Attribute(a)) })
		if at < 0 {
			continue
		}
		p, value := patterns[at], r.values[a]
		if !p.matches(value) {
			value = r.otherPaths[slices.IndexFunc(r.otherPaths, p.matches)]
		}
		all = append(all, Met{Attribute(a).String(), p.text, value})
	}
	return all
}

// isMetBy reports whether the pattern matches an attribute of r, or another reading of its path.
func (p Pattern) isMetBy(r *Request, a Attribute) bool {
	return r.values[a] != "" && p.matches(r.values[a]) || a == Path && slices.ContainsFunc(r.otherPaths, p.matches)
}

// Texts returns the patterns of an attribute.
func (w When) Texts(a Attribute) []string {
	texts := make([]string, 0, len(w[a]))
	for _, p := range w[a] {
		texts = append(texts, p.text)
	}
	return texts
}

// Equal reports whether v has the same conditions in the same order.
func (w When) Equal(v When) bool {
	for a := range w {
		if !slices.Equal(w.Texts(Attribute(a)), v.Texts(Attribute(a))) {
			return false
		}
	}
	return true
}

// Error says which pattern is wrong and what is allowed.
type Error struct {
	Field   string // for example "when.path[2]"
	Problem string
}

// Error returns one line that is safe to print.
func (e *Error) Error() string { return e.Field + " " + e.Problem }

// Parse parses the patterns of each attribute, sorts them, and removes duplicates. An error is an
// *Error.
func Parse(texts [attributeCount][]string) (When, error) {
	var w When
	for a := range texts {
		field := "when." + Attribute(a).String()
		if len(texts[a]) > MaxPatterns {
			return When{}, &Error{field, fmt.Sprintf("has %d patterns; the most is %d", len(texts[a]), MaxPatterns)}
		}
		for i, text := range texts[a] {
			p, err := ParsePattern(Attribute(a), text)
			if err != nil {
				return When{}, &Error{fmt.Sprintf("%s[%d]", field, i), err.Error()}
			}
			w[a] = append(w[a], p)
		}
		slices.SortFunc(w[a], func(p, q Pattern) int { return strings.Compare(p.text, q.text) })
		w[a] = slices.CompactFunc(w[a], func(p, q Pattern) bool { return p.text == q.text })
	}
	return w, nil
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

// Describe says in words when the policy applies: "if the path begins with /login
// and the method is POST". It is "" without conditions.
func (w When) Describe() string {
	var parts []string
	for a, patterns := range w {
		if len(patterns) == 0 {
			continue
		}
		const shown = 3
		var words []string
		for i, p := range patterns {
			if i == shown && len(patterns) > shown+1 {
				words = append(words, fmt.Sprintf("matches one of %d more patterns", len(patterns)-shown))
				break
			}
			words = append(words, p.describe())
		}
		parts = append(parts, "the "+Attribute(a).String()+" "+strings.Join(words, " or "))
	}
	if len(parts) == 0 {
		return ""
	}
	return "if " + strings.Join(parts, ", and ")
}

// Each returns one When for each pattern of an attribute, in the order of Texts. An index of
// these finds the patterns that match a value.
func (w When) Each(a Attribute) []When {
	each := make([]When, len(w[a]))
	for i, p := range w[a] {
		each[i][a] = []Pattern{p}
	}
	return each
}
