// Package crawlers knows which addresses are those of search engines, as these say that it
// is verified: the name of the address belongs to the operator, and that name has the
// address. What a client says of itself counts for nothing.
package crawlers

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Operator is an operator of crawlers.
type Operator struct {
	Name     string   `yaml:"name"` // as in settings
	Title    string   `yaml:"title"`
	Suffixes []string `yaml:"suffixes"` // of the names of its addresses, without a dot before
}

//go:embed operators.yaml
var operatorsText []byte

var operators = loadOperators()

// A file that cannot be read is a mistake of the build, which every program and test
// would meet at once.
func loadOperators() []Operator {
	var all []Operator
	if err := yaml.Unmarshal(operatorsText, &all); err != nil {
		panic(err)
	}
	return all
}

// Operators returns all that are known, by name. Callers must not change them.
func Operators() []Operator { return operators }

// ParseOperators reads names with commas between, "" for none.
func ParseOperators(text string) ([]Operator, error) {
	var all []Operator
	for _, name := range strings.Split(text, ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		if name == "" {
			continue
		}
		i := slices.IndexFunc(operators, func(o Operator) bool { return o.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("must be names of %s, with commas between, got %q", names(), name)
		}
		if !slices.ContainsFunc(all, func(o Operator) bool { return o.Name == name }) {
			all = append(all, operators[i])
		}
	}
	return all, nil
}

func names() string {
	var all []string
	for _, o := range operators {
		all = append(all, o.Name)
	}
	return strings.Join(all, ", ")
}

// has reports whether a name of DNS belongs to the operator.
func (o Operator) has(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return slices.ContainsFunc(o.Suffixes, func(s string) bool { return strings.HasSuffix(name, "."+s) })
}
