package wire

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Algorithm is a way to count that a policy may name.
type Algorithm struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Summary string `json:"summary"` // what it keeps and promises, in one sentence
	// Exact says that it never lets more than N into any window and never
	// refuses needlessly.
	Exact bool `json:"exact"`
	// Options are those of PolicyOptions that it takes.
	Options []string `json:"options"`
}

// PolicyOptions are the options of a policy's algorithm; each is omitted if it has its
// default. See algorithms.Options.
type PolicyOptions struct {
	Burst        int    `json:"burst,omitzero" yaml:"burst,omitempty"`                                          // each rule's own limit if omitted
	CountRefused bool   `json:"count_refused,omitzero" yaml:"count_refused,omitempty"`                          // refused requests count too
	WindowStart  string `json:"window_start,omitzero" yaml:"window_start,omitempty" enum:"clock,first_request"` // clock if omitted, or first_request
	Variant      string `json:"variant,omitzero" yaml:"variant,omitempty" enum:"meter,queue"`                   // meter if omitted, or queue
}

// The names of the options.
const (
	optionBurst        = "burst"
	optionCountRefused = "count_refused"
	optionWindowStart  = "window_start"
	optionVariant      = "variant"
)

// ParseOptions reads options written as people do on a command line, such as
// burst=50 and count_refused or count_refused=true.
func ParseOptions(texts []string) (PolicyOptions, error) {
	var o PolicyOptions
	for _, text := range texts {
		name, value, given := strings.Cut(text, "=")
		if err := o.set(name, value, given); err != nil {
			return PolicyOptions{}, err
		}
	}
	return o, nil
}

func (o *PolicyOptions) set(name, value string, given bool) (err error) {
	switch name {
	case optionBurst:
		if o.Burst, err = strconv.Atoi(value); err != nil {
			return errors.New("burst must be a whole number, as in burst=50")
		}
	case optionCountRefused:
		if !given {
			value = "true"
		}
		if o.CountRefused, err = strconv.ParseBool(value); err != nil {
			return errors.New("count_refused must be true or false")
		}
	case optionWindowStart:
		o.WindowStart = value
	case optionVariant:
		o.Variant = value
	default:
		if name != "" && strings.Trim(name, "0123456789") == "" {
			return fmt.Errorf("%q is not an option; write numbers without separators, as in burst=1000", name)
		}
		return fmt.Errorf("%q is not an option; the options are %s", name, strings.Join(OptionNames(), ", "))
	}
	return nil
}

// OptionNames returns the names of all options.
func OptionNames() []string {
	return []string{optionBurst, optionCountRefused, optionWindowStart, optionVariant}
}

// Texts returns the options that are not default as ParseOptions reads them.
func (o PolicyOptions) Texts() []string {
	texts := []string{}
	if o.Burst != 0 {
		texts = append(texts, optionBurst+"="+strconv.Itoa(o.Burst))
	}
	if o.CountRefused {
		texts = append(texts, optionCountRefused+"=true")
	}
	if o.WindowStart != "" {
		texts = append(texts, optionWindowStart+"="+o.WindowStart)
	}
	if o.Variant != "" {
		texts = append(texts, optionVariant+"="+o.Variant)
	}
	return texts
}
