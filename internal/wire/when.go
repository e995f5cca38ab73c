package wire

import (
	"maps"
	"strings"
)

// PolicyWhen is the conditions of a policy: patterns of each attribute of a request. A
// request meets them if, for each attribute with patterns, one of these matches it. A
// star matches any run of characters, "\*" is a literal star. "@secrets" is a named list of patterns, see
// listConditionLists, and "not /static/*" excludes what the pattern matches: with no other pattern, all
// other known values meet the condition. Paths are compared with their case and without the query; the
// other attributes are case-insensitive.
type PolicyWhen struct {
	Path     []string `json:"path,omitempty" yaml:"path,omitempty"`              // case-sensitive, without the query
	Method   []string `json:"method,omitempty" yaml:"method,omitempty,flow"`     // case-insensitive
	Agent    []string `json:"agent,omitempty" yaml:"agent,omitempty"`            // of the header User-Agent, case-insensitive
	Host     []string `json:"host,omitempty" yaml:"host,omitempty"`              // case-insensitive, without port and final dot
	Scheme   []string `json:"scheme,omitempty" yaml:"scheme,omitempty,flow"`     // http or https
	JA4      []string `json:"ja4,omitempty" yaml:"ja4,omitempty,flow"`           // the fingerprint of the client's TLS, as the proxy of ja4-header says it: t13d1516h2_*
	Country  []string `json:"country,omitempty" yaml:"country,omitempty,flow"`   // of the address, by the files of origins: NL
	ASN      []string `json:"asn,omitempty" yaml:"asn,omitempty,flow"`           // the number of the autonomous system of the address: 64500
	Bot      []string `json:"bot,omitempty" yaml:"bot,omitempty,flow"`           // who a known bot says that it is: openai/gptbot, openai/*
	Category []string `json:"category,omitempty" yaml:"category,omitempty,flow"` // of a known bot: search, ai-training, ai-user, preview, feed, seo, monitor or archive
	Verified []string `json:"verified,omitempty" yaml:"verified,omitempty,flow"` // how a known bot was verified: signature, list, dns, claimed for not at all, or spoofed
	// Attack is ["on"] for a policy that applies only while an announced attack goes on, see listAttacks, and is
	// not part of what a request is: such a policy applies in addition to the key's own, also to checks that say
	// nothing of their request. Its refusals are no sign of an attack.
	Attack []string `json:"attack,omitempty" yaml:"attack,omitempty,flow"`
	// Header, Query and Cookie have the patterns of a header, of a parameter of the query or of a cookie
	// by its name: {"accept-language":["not *"]} is met if it is missing, "*" if it is there. A header or a
	// cookie that is empty is missing.
	Header map[string][]string `json:"header,omitempty" yaml:"header,omitempty"`
	Query  map[string][]string `json:"query,omitempty" yaml:"query,omitempty"`
	Cookie map[string][]string `json:"cookie,omitempty" yaml:"cookie,omitempty"`
}

// plain returns the patterns of the attributes without a name of their own, by their name.
func (w *PolicyWhen) plain() map[string]*[]string {
	return map[string]*[]string{
		"path": &w.Path, "method": &w.Method, "agent": &w.Agent, "host": &w.Host, "scheme": &w.Scheme, "ja4": &w.JA4,
		"country": &w.Country, "asn": &w.ASN, "bot": &w.Bot, "category": &w.Category, "verified": &w.Verified, "attack": &w.Attack,
	}
}

// named returns the patterns of headers, parameters and cookies, by what they are.
func (w *PolicyWhen) named() map[string]*map[string][]string {
	return map[string]*map[string][]string{"header": &w.Header, "query": &w.Query, "cookie": &w.Cookie}
}

// IsZero reports whether there are no conditions.
func (w PolicyWhen) IsZero() bool { return len(w.Texts()) == 0 }

// Texts returns the patterns of each attribute that has some, by its name: "path", "header:accept".
func (w PolicyWhen) Texts() map[string][]string {
	all := map[string][]string{}
	for name, patterns := range w.plain() {
		all[name] = *patterns
	}
	for source, values := range w.named() {
		for name, patterns := range *values {
			all[source+":"+name] = patterns
		}
	}
	maps.DeleteFunc(all, func(_ string, patterns []string) bool { return len(patterns) == 0 })
	return all
}

// WhenOf returns the conditions with these patterns; see Texts. It leaves out attributes that
// conditions do not have.
func WhenOf(texts map[string][]string) (w PolicyWhen) {
	plain, named := w.plain(), w.named()
	for name, patterns := range texts {
		if into := plain[name]; into != nil {
			*into = patterns
			continue
		}
		source, own, _ := strings.Cut(name, ":")
		if into := named[source]; into != nil {
			if *into == nil {
				*into = map[string][]string{}
			}
			(*into)[own] = patterns
		}
	}
	return w
}

// RequestAttributes are the attributes of the request that is checked, by which policies
// with conditions apply. All are optional.
type RequestAttributes struct {
	Path   string `json:"path,omitzero"`   // or the whole target; of the query, only parameters that conditions name are looked at
	Method string `json:"method,omitzero"` // as GET
	Agent  string `json:"agent,omitzero"`  // the header User-Agent
	Host   string `json:"host,omitzero"`   // with its port if it has one, which only signatures are about
	Scheme string `json:"scheme,omitzero"` // http or https
	JA4    string `json:"ja4,omitzero"`    // the fingerprint of the client's TLS
	// Headers has those headers that policies ask for, see getGuide, and of a bot that signs its requests
	// Signature, Signature-Input and Signature-Agent: "" says that a header was
	// not sent, and one that is left out meets no condition on it. At most 32.
	Headers map[string]string `json:"headers,omitzero"`
	Query   map[string]string `json:"query,omitzero"`   // parameters of the query, like headers
	Cookies map[string]string `json:"cookies,omitzero"` // cookies, like headers
	// Scope says what part of the application the request is for, as login: policies with
	// a scope refuse only checks of theirs. Of the form of an outcome.
	Scope string `json:"scope,omitzero"`
}

// MaxNamed is how many headers, parameters or cookies a check may have.
const MaxNamed = 32

// IsZero reports whether nothing is said.
func (r RequestAttributes) IsZero() bool {
	return r.Path+r.Method+r.Agent+r.Host+r.Scheme+r.JA4+r.Scope == "" && len(r.Headers)+len(r.Query)+len(r.Cookies) == 0
}

// Named returns the headers, parameters and cookies by what they are, as conditions name them.
func (r *RequestAttributes) Named() map[string]map[string]string {
	return map[string]map[string]string{"header": r.Headers, "query": r.Query, "cookie": r.Cookies}
}
