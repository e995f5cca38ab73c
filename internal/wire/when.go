package wire

import "slices"

// PolicyWhen is the conditions of a policy: patterns of each attribute of a request. A
// request meets them if, for each attribute with patterns, one of these matches it. A
// star matches any run of characters, "\*" is a literal star. "@secrets" is a named list of patterns, see
// listConditionLists, and "not /static/*" excludes what the pattern matches: with no other pattern, all
// other known values meet the condition. Paths are compared with their case and without the query; the
// other attributes are case-insensitive.
type PolicyWhen struct {
	Path   []string `json:"path,omitempty" yaml:"path,omitempty"`          // case-sensitive, without the query
	Method []string `json:"method,omitempty" yaml:"method,omitempty,flow"` // case-insensitive
	Agent  []string `json:"agent,omitempty" yaml:"agent,omitempty"`        // of the header User-Agent, case-insensitive
	Host   []string `json:"host,omitempty" yaml:"host,omitempty"`          // case-insensitive, without port and final dot
}

// IsZero reports whether there are no conditions.
func (w PolicyWhen) IsZero() bool {
	return len(w.Path)+len(w.Method)+len(w.Agent)+len(w.Host) == 0
}

// Lists returns the patterns of each attribute, in the order of WhenNames.
func (w PolicyWhen) Lists() [4][]string {
	return [4][]string{slices.Clone(w.Path), slices.Clone(w.Method), slices.Clone(w.Agent), slices.Clone(w.Host)}
}

// WhenOf returns the conditions of lists; see Lists.
func WhenOf(lists [4][]string) PolicyWhen {
	return PolicyWhen{Path: lists[0], Method: lists[1], Agent: lists[2], Host: lists[3]}
}

// WhenNames returns the names of the attributes.
func WhenNames() []string { return []string{"path", "method", "agent", "host"} }

// RequestAttributes are the attributes of the request that is checked, by which policies
// with conditions apply. All are optional.
type RequestAttributes struct {
	Path   string `json:"path,omitzero"`   // or the whole target; the query is not looked at
	Method string `json:"method,omitzero"` // as GET
	Agent  string `json:"agent,omitzero"`  // the header User-Agent
	Host   string `json:"host,omitzero"`   // its port is not looked at
	// Scope says what part of the application the request is for, as login: policies with
	// a scope refuse only checks of theirs. Of the form of an outcome.
	Scope string `json:"scope,omitzero"`
}
