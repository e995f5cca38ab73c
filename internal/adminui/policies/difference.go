package policies

import (
	"strconv"
	"strings"

	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/rules"
)

// difference is one line about a policy that differs between two versions.
type difference struct{ Field, Was, Now string }

// differences describes the changes from one version to another.
func differences(was, now *rules.Policy) []difference {
	changed := map[string]bool{}
	for _, c := range rules.Diff(was, now) {
		group, _, _ := strings.Cut(c.Field, ".")
		changed[group] = true
	}
	changed["algorithm"] = changed["algorithm"] || changed["options"] // they are on the same line
	var all []difference
	before, after := linesOf(was), linesOf(now)
	for i, line := range after {
		if changed[line.of] {
			all = append(all, difference{line.name, before[i].text, line.text})
		}
	}
	return all
}

var modeWords = map[rules.Mode]string{
	rules.Enforce: "enforce: it refuses requests", rules.Shadow: "shadow: it only counts what it would refuse", rules.Off: "off: it refuses and counts nothing",
}

var failureWords = map[rules.OnFailure]string{
	rules.FailLocal: "count on each node", rules.FailAllow: "allow", rules.FailDeny: "refuse",
}

func onLimitWords(p *rules.Policy) string {
	switch p.OnLimit {
	case rules.BlockOnLimit:
		return "refuse and block the key at once"
	case rules.ChallengeOnLimit:
		return "refuse until the browser has solved a challenge or there is room"
	}
	return "refuse until there is room"
}

// line is one line about a policy, with its field or group of fields.
type line struct{ of, name, text string }

// linesOf describes a policy in lines, always in the same order.
func linesOf(p *rules.Policy) []line {
	stack := make([]string, len(p.Rules))
	for i, r := range p.Rules {
		stack[i] = format.Rule(r)
	}
	patterns := make([]string, len(p.Match))
	for i, m := range p.Match {
		patterns[i] = m.String()
	}
	return []line{
		{"rules", "Rules", strings.Join(stack, "  ")},
		{"unit", "Amounts", amountWords(p)},
		{"algorithm", "Algorithm", p.DescribeCounting()},
		{"match", "Applies to", strings.Join(patterns, "  ")},
		{"when", "Conditions", whenWords(p)},
		{"outcome", "Counts", countedWords(p)},
		{"evidence", "Evidence", evidenceWords(p)},
		{"scope", "Refuses", refusedWords(p)},
		{"also", "Also counts", alsoWords(p)},
		{"mode", "Mode", modeWords[p.Mode]},
		{"on_failure", "If the log is unreachable", failureWords[p.OnFailure]},
		{"on_limit", "At a limit", onLimitWords(p)},
		{"escalation", "Automatic blocks", escalationWords(p.Escalation)},
	}
}

func countedWords(p *rules.Policy) string {
	counted := "checks"
	if p.HasEvidence() {
		return "points of evidence"
	}
	if p.IsReported() {
		counted = "reports of " + p.Outcome
	}
	if name := p.Rules.Distinct(); name != "" {
		return "the different values of " + name + " in " + counted
	}
	return counted
}

func evidenceWords(p *rules.Policy) string {
	if !p.HasEvidence() {
		return "none"
	}
	return strings.Join(p.Evidence.Strings(), ",  ")
}

func alsoWords(p *rules.Policy) string {
	if len(p.Also) == 0 {
		return "no further keys"
	}
	return strings.Join(p.Also.Strings(), ",  ")
}

func refusedWords(p *rules.Policy) string {
	if p.Scope != "" {
		return "checks in the scope " + p.Scope
	}
	return "checks"
}

func whenWords(p *rules.Policy) string {
	var all []string
	for _, a := range p.When.Attributes() {
		all = append(all, a.String()+" "+strings.Join(p.When.Texts(a), "  "))
	}
	if p.InAttack {
		all = append(all, "only while an attack goes on")
	}
	if len(all) == 0 {
		return "anything"
	}
	return strings.Join(all, ", ")
}

func challengingWords(levels int) string {
	switch levels {
	case 0:
		return ""
	case 1:
		return "; the first block challenges"
	}
	return "; the first " + strconv.Itoa(levels) + " blocks challenge"
}

func escalationWords(e *rules.Escalation) string {
	if e == nil {
		return "none"
	}
	return "after " + phrase.Number(int64(e.Threshold)) + " offences within " + phrase.Duration(e.Window) + " block for " + phrase.Duration(e.Duration) +
		", each time " + strconv.FormatFloat(e.Factor, 'g', -1, 64) + " times longer, at most " + phrase.Duration(e.MaxDuration) +
		"; lower the level by one after " + phrase.Duration(e.DecayAfter) + " without an offence" + challengingWords(e.ChallengeLevels)
}
