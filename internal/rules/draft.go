package rules

import "strings"

// draftSuffix ends the names of drafts.
const draftSuffix = ".draft"

// DraftName returns the name of the draft of a policy. A draft is a shadow policy that runs beside
// the policy that it may replace: it decides about the same checks, in a log of its own, and refuses
// none.
func DraftName(policy string) string { return policy + draftSuffix }

// DraftOf returns the name of the policy of which p is the draft, and "" and false if it is none.
func DraftOf(p *Policy) (policy string, is bool) {
	if p.Mode == Shadow {
		policy, is = strings.CutSuffix(p.Name, draftSuffix)
	}
	if !is {
		return "", false
	}
	return policy, true
}

// InShadow returns wanted policies in shadow mode. Those of which the present version enforces become
// drafts, so that no keys leave it.
func InShadow(present, wanted []*Policy) []*Policy {
	enforces := map[string]bool{}
	for _, p := range present {
		enforces[p.Name] = p.Mode == Enforce
	}
	all := make([]*Policy, len(wanted))
	for i, p := range wanted {
		shadow := *p
		if shadow.Mode = Shadow; enforces[p.Name] {
			shadow.Name = DraftName(p.Name)
		}
		all[i] = &shadow
	}
	return all
}
