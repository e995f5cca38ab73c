package rules

import (
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/keys"
)

// isOfBots reports whether a pattern selects bots or their categories, as in package bots.
func isOfBots(pattern string) bool {
	return strings.HasPrefix(pattern, "bot:") || strings.HasPrefix(pattern, "category:")
}

// asked are the attributes of requests that policies look at.
type asked struct {
	all []conditions.Attribute // by name
	// named are those of them that are headers, parameters or cookies, the scheme and the fingerprint.
	named []conditions.Attribute
	// origin reports whether any of them is found by the address alone, and found whether any is found
	// by the node.
	origin, found bool
}

func (x *asked) add(name string) {
	a, err := conditions.ParseAttribute(name)
	if err != nil || slices.Contains(x.all, a) {
		return
	}
	x.all = append(x.all, a)
	if source, _ := a.Source(); source != "" || a == conditions.Scheme || a == conditions.JA4 {
		x.named = append(x.named, a)
	}
	x.found = x.found || a.IsFound()
	switch a {
	case conditions.Country, conditions.ASN:
		x.origin = true
	case conditions.Bot, conditions.Category, conditions.Verified:
		x.addBot()
	}
}

// addBot adds what a bot is identified by. Whoever asks about a request says its signature by itself: it is
// not among named.
func (x *asked) addBot() {
	x.add(conditions.Agent.String())
	for _, a := range conditions.SignatureHeaders() {
		if !slices.Contains(x.all, a) {
			x.all = append(x.all, a)
		}
	}
}

// addPolicy adds what a policy that is not off looks at.
func (x *asked) addPolicy(p *Policy) {
	for _, name := range p.Asks() {
		x.add(name)
	}
	if slices.ContainsFunc(p.Match, func(m keys.Pattern) bool { return isOfBots(m.String()) }) {
		x.addBot()
	}
}

// Asks returns the names of the attributes and values that p looks at.
func (p *Policy) Asks() (all []string) {
	add := func(w conditions.When) {
		for _, a := range w.Attributes() {
			all = append(all, a.String())
		}
	}
	add(p.When)
	for _, e := range p.Evidence {
		add(e.When)
		all = append(all, e.Distinct)
		if e.Outcome == conditions.BotSpoofed {
			all = append(all, conditions.Verified.String())
		}
	}
	if p.Outcome == conditions.BotSpoofed {
		all = append(all, conditions.Verified.String())
	}
	all = append(all, p.Rules.Distinct())
	for _, d := range p.Also {
		all = append(all, strings.Split(d.Name, partsJoiner)...)
		all = append(all, d.Rules.Distinct())
	}
	return all
}

// Asked returns the attributes of requests that policies look at, by name: what those that ask should
// say of their requests.
func (s *Selector) Asked() []conditions.Attribute { return s.asked.all }

// AskedNamed returns those of Asked that conditions.NewRequest has no parameter for and that gateways
// send: headers, parameters of the query, cookies, the scheme and the fingerprint.
func (s *Selector) AskedNamed() []conditions.Attribute { return s.asked.named }

// AsksOrigin reports whether policies look at the country or the autonomous system of addresses.
func (s *Selector) AsksOrigin() bool { return s.asked.origin }

// AsksFound reports whether policies look at what a node finds by itself.
func (s *Selector) AsksFound() bool { return s.asked.found }
