package breakdown

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stint-dev/stint/internal/conditions"
)

// Labels returns the labels of the dimensions of the filters.
func (all Filters) Labels() (labels []string) {
	for _, f := range all {
		labels = append(labels, Dimensions[f.Dimension].Label)
	}
	return labels
}

// Conditions returns the conditions by which a policy applies to what the filters select. left are the
// filters that cannot be among them, and wider are those whose conditions are met by other values too.
func (all Filters) Conditions() (when conditions.Texts, left, wider Filters) {
	when = conditions.Texts{}
	for _, f := range all {
		texts, excluded := f.conditions()
		for _, pattern := range excluded {
			if all.wants(pattern) { // another filter selects what a star of this one would
				texts = nil
			}
		}
		if texts == nil {
			left = append(left, f)
			continue
		}
		if f.isWidened() {
			wider = append(wider, f)
		}
		name := Dimensions[f.Dimension].Name
		for _, pattern := range excluded {
			texts = append(texts, notBefore+pattern)
		}
		when[name] = append(when[name], texts...)
	}
	return when, left, wider
}

// isWidened reports whether patterns are met by values that the filter does not select. Those of a Not
// exclude more instead.
func (f Filter) isWidened() bool {
	if f.Not {
		return false
	}
	switch Dimensions[f.Dimension].Condition {
	case &conditions.Path: // a star is any text, and what follows an incomplete segment may make it an id
		return strings.Contains(f.Value, folded) || Template(f.Value) != f.Value || f.IsPrefix && !strings.HasSuffix(f.Value, "/")
	case &conditions.Agent: // what follows the name may name a robot
		return true
	}
	return false
}

const notBefore = "not "

// wants reports whether a pattern matches a path that a filter selects.
func (all Filters) wants(pattern string) bool {
	when, err := conditions.Parse(conditions.Texts{conditions.Path.String(): {pattern}})
	return err != nil || slices.ContainsFunc(all, func(f Filter) bool {
		path := strings.ReplaceAll(f.Value, folded, "1")
		return Dimensions[f.Dimension].Condition == &conditions.Path && !f.Not && when.Meets(conditions.NewRequest(path, "", "", ""))
	})
}

// conditions returns the patterns of one filter, nil if there are none that select as much, and those
// of what they select beyond it.
func (f Filter) conditions() (patterns, excluded []string) {
	a := Dimensions[f.Dimension].Condition
	isCut := len(f.Value) > maxValue-utf8.UTFMax
	if a == nil || f.Value == "" || isCut || strings.ContainsRune(f.Value, utf8.RuneError) {
		return nil, nil
	}
	switch {
	case a == &conditions.Path:
		patterns, excluded = f.pathPatterns()
	case a == &conditions.Agent:
		patterns = f.agentPatterns()
	case f.IsPrefix:
		patterns = []string{conditions.Escape(f.Value) + "*"}
	default:
		patterns = []string{conditions.Escape(f.Value)}
	}
	for i, pattern := range patterns {
		if strings.HasPrefix(pattern, "@") || strings.HasPrefix(pattern, notBefore) || pattern != strings.TrimSpace(pattern) {
			return nil, nil
		}
		if f.Not {
			patterns[i], excluded = notBefore+pattern, nil
		}
		if _, err := conditions.ParsePattern(*a, patterns[i]); err != nil {
			return nil, nil
		}
	}
	return patterns, excluded
}

// pathPatterns returns the pattern of a template, none for one that has nothing but ids, and those of
// the paths in which a star for an id matches nothing, or several segments.
func (f Filter) pathPatterns() (patterns, excluded []string) {
	text, end := f.Value, ""
	if f.IsPrefix {
		end = "*"
	}
	// Only Template writes this behind so many segments; elsewhere it is a part of the path.
	if first, isCut := strings.CutSuffix(text, cutSegments); isCut && strings.Count(first, "/") == maxSegments {
		text, end = first, "/*"
	}
	parts := strings.Split(conditions.Escape(text), folded)
	if len(parts) > 1 && strings.Trim(strings.Join(parts, ""), "/.-") == "" {
		return nil, nil
	}
	for i := 1; i < len(parts); i++ {
		before, after := strings.Join(parts[:i], "*"), strings.Join(parts[i:], "*")+end
		if after == "*" { // anything may follow, but not nothing
			excluded = append(excluded, before)
			continue
		}
		if excluded = append(excluded, before+"*/*"+after); strings.HasSuffix(before, "/") {
			excluded = append(excluded, before+after)
		}
	}
	return []string{strings.Join(parts, "*") + end}, excluded
}

// agentPatterns returns the patterns of a family. Browsers name each other, so that no pattern selects
// one of them only; what a filter excludes may be more than its family.
func (f Filter) agentPatterns() (patterns []string) {
	if f.IsPrefix || slices.Contains([]string{folded, otherProduct, mozilla}, f.Value) {
		return nil
	}
	for _, b := range browsers {
		if b.family == f.Value {
			patterns = append(patterns, "*"+b.token+"*")
		}
	}
	if len(patterns) > 0 {
		if !f.Not {
			return nil
		}
		return patterns
	}
	name, ends := conditions.Escape(f.Value), productEnds
	if isRobot := robot(f.Value) != ""; isRobot || f.Not {
		name, ends = "*"+name, productEnds+robotEnds
	}
	patterns = []string{name}
	for _, end := range ends {
		patterns = append(patterns, name+string(end)+"*")
	}
	return patterns
}
