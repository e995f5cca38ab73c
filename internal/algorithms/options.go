package algorithms

import (
	"fmt"
	"strings"
)

// MaxBurst is the largest Options.Burst, except that of limits which are as large.
const MaxBurst = 100_000

// OptionError says which option is wrong, and what would be right.
type OptionError struct {
	Option  string // its name in the API
	Problem string // a clause that follows the option's name
}

// Error returns one line that is safe to print.
func (e *OptionError) Error() string { return e.Option + " " + e.Problem }

// Check returns nil or an *OptionError for the first option that a does not support or that has a
// wrong value.
func (a *Algorithm) Check(o Options) error {
	for _, given := range []struct {
		name string
		set  bool
	}{
		{OptionBurst, o.Burst != 0}, {OptionCountRefused, o.CountRefused}, {OptionWindowStart, o.WindowStart != ""}, {OptionVariant, o.Variant != ""},
	} {
		if given.set && !a.Takes(given.name) {
			return &OptionError{given.name, a.takesInstead()}
		}
	}
	switch {
	case o.Burst < 0 || o.Burst > MaxAmount:
		return &OptionError{OptionBurst, fmt.Sprintf("must be 1 to %d, or be omitted for each rule's own limit", int64(MaxAmount))}
	case o.WindowStart != "" && o.WindowStart != WindowClock && o.WindowStart != WindowFirst:
		return &OptionError{OptionWindowStart, "must be " + WindowClock + " or " + WindowFirst}
	case o.Variant != "" && o.Variant != VariantMeter && o.Variant != VariantQueue:
		return &OptionError{OptionVariant, "must be " + VariantMeter + " or " + VariantQueue}
	}
	return nil
}

func (a *Algorithm) takesInstead() string {
	if len(a.Options) == 0 {
		return "is not an option of " + a.Name + ", which takes none"
	}
	return "is not an option of " + a.Name + ", which takes " + strings.Join(a.Options, " and ")
}

// Canonical returns o with explicit defaults replaced by zero values, so that options with the
// same meaning are equal.
func (o Options) Canonical() Options {
	if o.WindowStart == WindowClock {
		o.WindowStart = ""
	}
	if o.Variant == VariantMeter {
		o.Variant = ""
	}
	return o
}
