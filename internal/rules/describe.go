package rules

import (
	"fmt"
	"strings"
	"time"
)

// Describe says in plain words what a stack means: what is allowed in any window, and how soon
// that is used up at full speed. It leaves out the rules in Warnings, because they have no
// effect.
func (s Stack) Describe() string {
	if text := s.describeConcurrent(); text != "" {
		if rest := s.Windows(); len(rest) > 0 {
			return rest.Describe() + " " + text
		}
		return text
	}
	if text := s.describeCalendar(); text != "" {
		if rest, _ := s.sliding(); len(rest) > 0 {
			return rest.Describe() + " " + text
		}
		return text
	}
	binding, _ := s.split()
	switch {
	case len(binding) == 0:
		return "Every request is allowed: there are no rules."
	case binding.refusesAll():
		return "No request is allowed."
	}
	clauses := make([]string, len(binding))
	for i, r := range binding {
		limit := strings.TrimSpace(grouped(int64(r.Limit)) + " " + r.Unit)
		clauses[i] = fmt.Sprintf("%s in any %s", limit, windowInWords(r.Window))
	}
	if s.CountsPoints() {
		clauses[0] = fmt.Sprintf("%s points in any %s", grouped(int64(binding[0].Limit)), windowInWords(binding[0].Window))
		return "Refused from " + strings.Join(clauses, ", or ") + "."
	}
	if name := s.Distinct(); name != "" {
		clauses[0] = fmt.Sprintf("%s different values of %s in any %s", grouped(int64(binding[0].Limit)), name, windowInWords(binding[0].Window))
		return "At most " + list(clauses) + ". A value that comes again counts once."
	}
	return strings.TrimSpace("At most " + list(clauses) + ". " + binding.describeSpeed())
}

func (s Stack) describeSpeed() string {
	var clauses []string
	for _, u := range s.UsedUp() {
		if u.After == 0 {
			continue
		}
		verb := ""
		if len(clauses) == 0 {
			verb = " are used up" // a limit of 1 has no clause, so the noun is a plural
		}
		clauses = append(clauses, fmt.Sprintf("%s%s after %s", share(u.Rule), verb, inWords(u.After)))
	}
	if len(clauses) == 0 {
		return ""
	}
	return "At full speed " + list(clauses) + "."
}

// share returns a phrase for what a rule grants: "the day's 800", "the 50 of any 10 seconds".
func share(r Rule) string {
	limit, window := grouped(int64(r.Limit)), windowInWords(r.Window)
	if isUnit(r.Window) {
		return "the " + window + "'s " + limit
	}
	return "the " + limit + " of any " + window
}

func isUnit(w time.Duration) bool {
	for _, u := range units {
		if u.writes && u.length == w {
			return true
		}
	}
	return false
}

// list joins clauses with commas and an "and" before the last.
func list(clauses []string) string {
	last := len(clauses) - 1
	if last < 1 {
		return strings.Join(clauses, "")
	}
	return strings.Join(clauses[:last], ", ") + " and " + clauses[last]
}
