package policies

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
)

// algorithmFields are the form fields for how a policy counts: texts that may be invalid. The
// fields of options that the algorithm does not have are neither shown nor read.
type algorithmFields struct {
	Name         string
	Burst        string // "" means each rule's own limit
	CountRefused bool
	WindowStart  string
	Variant      string
}

// algorithmFieldsOf returns the fields of a policy, with defaults filled in.
func algorithmFieldsOf(p *rules.Policy) algorithmFields {
	f := algorithmFields{Name: p.Algorithm, CountRefused: p.Options.CountRefused, WindowStart: p.Options.WindowStart, Variant: p.Options.Variant}
	if p.Options.Burst != 0 {
		f.Burst = strconv.Itoa(p.Options.Burst)
	}
	f.fillDefaults()
	return f
}

func (f *algorithmFields) fillDefaults() {
	if f.WindowStart == "" {
		f.WindowStart = algorithms.WindowClock
	}
	if f.Variant == "" {
		f.Variant = algorithms.VariantMeter
	}
}

// algorithmFieldsFrom reads the fields of a form. A form without them is from a page of an
// earlier version, and does not change how a policy counts.
func algorithmFieldsFrom(values url.Values, before *rules.Policy) algorithmFields {
	if !values.Has("algorithm") {
		if before != nil {
			return algorithmFieldsOf(before)
		}
		return algorithmFieldsOf(&rules.Policy{Algorithm: algorithms.TimestampLog})
	}
	f := algorithmFields{
		Name: values.Get("algorithm"), Burst: strings.TrimSpace(values.Get("burst")), CountRefused: values.Get("count_refused") == "on",
		WindowStart: values.Get("window_start"), Variant: values.Get("variant"),
	}
	f.fillDefaults()
	return f
}

// readAlgorithm copies the fields into a policy. If a field cannot be parsed, it records the
// error and returns false. Validate checks the values.
func (d *draft) readAlgorithm(p *rules.Policy) bool {
	f := d.Algorithm
	p.Algorithm = f.Name
	a := algorithms.ByName(f.Name)
	if a == nil {
		return true // Validate names the valid ones
	}
	o := &p.Options
	if a.Takes(algorithms.OptionBurst) && f.Burst != "" {
		var err error
		if o.Burst, err = rules.ParseCount(f.Burst); err != nil || o.Burst == 0 {
			d.FieldErrors["options.burst"] = "Enter a whole number of at least 1, such as 500 or 20k, or nothing for each rule's own limit."
			return false
		}
	}
	o.CountRefused = f.CountRefused && a.Takes(algorithms.OptionCountRefused)
	if a.Takes(algorithms.OptionWindowStart) {
		o.WindowStart = f.WindowStart
	}
	if a.Takes(algorithms.OptionVariant) {
		o.Variant = f.Variant
	}
	*o = o.Canonical()
	return true
}

// algorithmChoice is one algorithm in the editor.
type algorithmChoice struct {
	*algorithms.Algorithm
	Chosen bool
}

// Named returns the title with a capital letter.
func (c algorithmChoice) Named() string { return strings.ToUpper(c.Title[:1]) + c.Title[1:] }

// Shows returns the classes of the algorithm's button, by which the style sheet shows the
// fields of its options.
func (c algorithmChoice) Shows() string {
	classes := make([]string, len(c.Algorithm.Options))
	for i, option := range c.Algorithm.Options {
		classes[i] = "takes-" + option
	}
	return strings.Join(classes, " ")
}

// Algorithms returns the algorithms that a policy can use: points of evidence have one of their own.
func (d *draft) Algorithms() []algorithmChoice {
	choices := algorithms.All()
	if d.Evidence != "" {
		choices = []*algorithms.Algorithm{algorithms.ByName(algorithms.PointLog)}
	}
	var all []algorithmChoice
	for _, a := range choices {
		all = append(all, algorithmChoice{a, a.Name == d.Algorithm.Name})
	}
	return all
}

// ChosenAlgorithm returns the algorithm of the draft, nil if its name is unknown.
func (d *draft) ChosenAlgorithm() *algorithmChoice {
	a := algorithms.ByName(d.Algorithm.Name)
	if a == nil {
		return nil
	}
	return &algorithmChoice{a, true}
}

// ChoosesAlgorithm reports whether the choice is shown open: if it is not the default, or has
// an error.
func (d *draft) ChoosesAlgorithm() bool {
	for field := range d.FieldErrors {
		if field == "algorithm" || strings.HasPrefix(field, "options.") {
			return true
		}
	}
	return d.Algorithm.Name != algorithms.TimestampLog
}
