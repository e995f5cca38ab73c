package policies

import (
	"strconv"
	"strings"

	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/rules"
)

// difference is one field of a policy that two versions differ in.
type difference struct{ Field, Was, Now string }

// differences returns what changes from one version to another, field by field.
func differences(was, now *rules.Policy) []difference {
	var all []difference
	before, after := linesOf(was), linesOf(now)
	for i, line := range after {
		if before[i].Was != line.Was {
			all = append(all, difference{line.Field, before[i].Was, line.Was})
		}
	}
	return all
}

var modeWords = map[rules.Mode]string{
	rules.Enforce: "enforce: it refuses", rules.Shadow: "shadow: it only counts whom it would refuse", rules.Off: "off: it allows what it selects",
}

var failureWords = map[rules.OnFailure]string{
	rules.FailLocal: "count on each node", rules.FailAllow: "allow", rules.FailDeny: "refuse",
}

// linesOf writes a policy in lines for people, always the same ones.
func linesOf(p *rules.Policy) []difference {
	stack := make([]string, len(p.Rules))
	for i, r := range p.Rules {
		stack[i] = format.Rule(r)
	}
	patterns := make([]string, len(p.Match))
	for i, m := range p.Match {
		patterns[i] = m.String()
	}
	return []difference{
		{Field: "Rules", Was: strings.Join(stack, "  ")},
		{Field: "Counts by", Was: CountsBy(p)},
		{Field: "Applies to", Was: strings.Join(patterns, "  ")},
		{Field: "Mode", Was: modeWords[p.Mode]},
		{Field: "If the log is unreachable", Was: failureWords[p.OnFailure]},
		{Field: "Automatic blocks", Was: escalationWords(p.Escalation)},
	}
}

func escalationWords(e *rules.Escalation) string {
	if e == nil {
		return "none"
	}
	return "after " + format.Number(int64(e.Threshold)) + " offences within " + format.Duration(e.Window) + " block for " + format.Duration(e.Duration) +
		", each time " + strconv.FormatFloat(e.Factor, 'g', -1, 64) + " times longer, at most " + format.Duration(e.MaxDuration) +
		"; forget one step after " + format.Duration(e.DecayAfter) + " without an offence"
}
