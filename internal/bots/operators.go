// Package bots knows the bots that say who they are: who operates them and what for, and how the
// operators say that it is verified: the name of the address in DNS, or the lists of addresses that they
// publish. What a client says of itself counts for nothing until then.
package bots

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/keys"
)

// Operator is an operator of bots.
type Operator struct {
	Name     string   `yaml:"name"` // as in settings and identities
	Title    string   `yaml:"title"`
	Docs     string   `yaml:"docs"`
	Suffixes []string `yaml:"suffixes"` // of the names of its addresses, without a dot before; none if DNS does not verify it
	Agents   []*Agent `yaml:"agents"`
}

// Agent is one of the bots of an operator.
type Agent struct {
	Operator *Operator `yaml:"-"`
	Token    string    `yaml:"token"` // a part of the header User-Agent, in lower case
	Category string    `yaml:"category"`
	Lists    []string  `yaml:"lists"` // addresses where the operator publishes those of the bot
	DNS      *bool     `yaml:"dns"`
	// Keys is the origin where the operator publishes the keys by which the bot signs its requests, "" for
	// a bot that signs none.
	Keys string `yaml:"keys"`
	// Devices reports that it may also fetch from the device of a user.
	Devices bool `yaml:"devices"`

	name string
	keys [3]botKeys // of its requests, of those that only claim to be, and of those that are spoofed
}

// botKeys are the keys of a bot and of its category.
type botKeys [2]keys.Key

// Name returns the identity without its kind: openai/gptbot.
func (a *Agent) Name() string { return a.name }

// hasDNS reports whether names in DNS verify the agent.
func (a *Agent) hasDNS() bool {
	return len(a.Operator.Suffixes) > 0 && (a.DNS == nil || *a.DNS)
}

//go:embed operators.yaml
var operatorsText []byte

var operators = loadOperators()

// A file that cannot be read is a mistake of the build, which every program and test
// would meet at once.
func loadOperators() []*Operator {
	var all []*Operator
	if err := yaml.Unmarshal(operatorsText, &all); err != nil {
		panic(err)
	}
	for _, o := range all {
		for _, a := range o.Agents {
			a.Operator = o
			a.complete()
			if !slices.Contains(conditions.Categories(), a.Category) {
				panic("bots: " + a.Token + " has no category")
			}
			if origin, is := originOf(a.Keys); a.Keys != "" && (!is || origin != a.Keys) {
				panic("bots: " + a.Keys + " is no origin with keys")
			}
		}
	}
	return all
}

// complete sets what follows from the operator and the token.
func (a *Agent) complete() {
	a.name = a.Operator.Name + "/" + a.Token
	for i, suffix := range []string{"", liarsSuffix[0], liarsSuffix[1]} {
		for j, text := range []string{Kind + ":" + a.name, CategoryKind + ":" + a.Category} {
			var err error
			if a.keys[i][j], err = (keys.Parser{}).Key(text + suffix); err != nil {
				panic(err)
			}
		}
	}
}

// liarsSuffix is at the end of the keys of requests that only claim to be of a bot, and of those that are
// spoofed.
var liarsSuffix = [...]string{"/" + conditions.Claimed, "/" + conditions.Spoofed}

// All returns the operators that are known, by name. Callers must not change them.
func All() []*Operator { return operators }

// Operators returns those whose bots DNS verifies, by name.
func Operators() []Operator {
	var all []Operator
	for _, o := range operators {
		if len(o.Suffixes) > 0 {
			all = append(all, *o)
		}
	}
	return all
}

// Agents returns the bots that are known, by operator.
func Agents() []*Agent {
	var all []*Agent
	for _, o := range operators {
		all = append(all, o.Agents...)
	}
	return all
}

// FindAgent returns the bot of an identity without its kind, nil for none.
func FindAgent(name string) *Agent {
	all := Agents()
	if i := slices.IndexFunc(all, func(a *Agent) bool { return a.Name() == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// ParseOperators reads names with commas between, "" for none.
func ParseOperators(text string) ([]Operator, error) {
	var all []Operator
	known := Operators()
	for _, name := range strings.Split(text, ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		if name == "" {
			continue
		}
		i := slices.IndexFunc(known, func(o Operator) bool { return o.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("must be names of %s, with commas between, got %q", names(known), name)
		}
		if !slices.ContainsFunc(all, func(o Operator) bool { return o.Name == name }) {
			all = append(all, known[i])
		}
	}
	return all, nil
}

func names(of []Operator) string {
	var all []string
	for _, o := range of {
		all = append(all, o.Name)
	}
	return strings.Join(all, ", ")
}

// has reports whether a name of DNS belongs to the operator.
func (o Operator) has(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return slices.ContainsFunc(o.Suffixes, func(s string) bool { return strings.HasSuffix(name, "."+s) })
}
