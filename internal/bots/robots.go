package bots

import (
	"fmt"
	"slices"
	"strings"
)

// Robots returns the part of a robots.txt that asks the bots that are refused to stay away. It says nothing
// of others: that belongs to the rest of the file.
func Robots(isRefused func(*Agent) bool) string {
	var b strings.Builder
	b.WriteString("# What Stint refuses, for those that ask. Made by stint-admin robots.\n")
	var titles, tokens []string
	for _, a := range append(Agents(), robotsOnly()...) {
		if isRefused(a) {
			tokens = append(tokens, a.Token)
			if !slices.Contains(titles, a.Operator.Title) {
				titles = append(titles, a.Operator.Title)
			}
		}
	}
	if len(tokens) > 0 {
		fmt.Fprintf(&b, "# %s\n", strings.Join(titles, ", "))
		for _, token := range tokens {
			fmt.Fprintf(&b, "User-agent: %s\n", token)
		}
		b.WriteString("Disallow: /\n")
	}
	return b.String()
}

// robotsOnly are names that operators look for in robots.txt and never send in requests.
func robotsOnly() (all []*Agent) {
	for operator, token := range map[string]string{"apple": "Applebot-Extended", "google": "Google-Extended"} {
		i := slices.IndexFunc(operators, func(o *Operator) bool { return o.Name == operator })
		a := &Agent{Operator: operators[i], Token: token, Category: "ai-training"}
		a.complete()
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b *Agent) int { return strings.Compare(a.name, b.name) })
	return all
}
