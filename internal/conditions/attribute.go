package conditions

import (
	"cmp"
	"errors"
	"slices"
	"strings"
)

// Attribute is a part of a request to which a condition can apply: one that every request has, or
// the header, the parameter of the query or the cookie with a name.
type Attribute struct {
	index int8   // of names
	name  string // of the header, parameter or cookie
}

// The attributes without a name of their own. The node finds the origin of the address, and the bot,
// by itself.
var (
	Path     = Attribute{index: 0}
	Method   = Attribute{index: 1}
	Agent    = Attribute{index: 2}
	Host     = Attribute{index: 3}
	Scheme   = Attribute{index: 4}  // http or https
	JA4      = Attribute{index: 5}  // the fingerprint of the client's TLS, as a proxy says it
	Country  = Attribute{index: 6}  // of the address, for example NL
	ASN      = Attribute{index: 7}  // the number of the autonomous system of the address
	Bot      = Attribute{index: 8}  // for example openai/gptbot
	Category = Attribute{index: 9}  // of the bot
	Verified = Attribute{index: 10} // how the bot was verified
)

// attributeCount is the number of attributes without a name of their own.
const attributeCount = 11

// The attributes with a name of their own.
const (
	headerIndex = attributeCount + iota
	queryIndex
	cookieIndex
)

var names = []string{"path", "method", "agent", "host", "scheme", "ja4", "country", "asn", "bot", "category", "verified", "header", "query", "cookie"}

// Header returns the attribute for a header. Its name is case-insensitive.
func Header(name string) Attribute { return Attribute{headerIndex, strings.ToLower(name)} }

// Query returns the attribute for a parameter of the query.
func Query(name string) Attribute { return Attribute{queryIndex, name} }

// Cookie returns the attribute for a cookie.
func Cookie(name string) Attribute { return Attribute{cookieIndex, name} }

// Names returns the names of the attributes without a name of their own, in their order.
func Names() []string { return slices.Clone(names[:attributeCount]) }

// Attributes returns the attributes without a name of their own, in their order.
func Attributes() []Attribute {
	all := make([]Attribute, attributeCount)
	for i := range all {
		all[i].index = int8(i) //nolint:gosec // few
	}
	return all
}

// Sources returns the words before the name of a header, a parameter or a cookie.
func Sources() []string { return slices.Clone(names[attributeCount:]) }

// AttributeSyntax says which attributes there are.
const AttributeSyntax = "path, method, agent, host, scheme, ja4, country, asn, bot, category, verified, header:NAME, query:NAME, cookie:NAME"

// Forms of the words of attributes.
const (
	// Verifications are how a bot was verified: not, by DNS, by the list of addresses that its operator
	// publishes, by the signature of its request; spoofed if DNS and the list say that it lies.
	Claimed     = "claimed"
	ByDNS       = "dns"
	ByList      = "list"
	BySignature = "signature"
	Spoofed     = "spoofed"
)

// Verifications returns how a bot may have been verified.
func Verifications() []string { return []string{Claimed, ByDNS, ByList, BySignature, Spoofed} }

// Categories returns the categories of bots.
func Categories() []string {
	return []string{"search", "ai-training", "ai-user", "preview", "feed", "seo", "monitor", "archive"}
}

// maxAttributeName bounds the name of a header, a parameter or a cookie, in bytes.
const maxAttributeName = 64

// ParseAttribute parses the name of an attribute: "path", "header:accept-language". The error says
// what is wrong, without quoting the name.
func ParseAttribute(name string) (Attribute, error) {
	if at := slices.Index(names[:attributeCount], name); at >= 0 {
		return Attribute{index: int8(at)}, nil //nolint:gosec // few
	}
	source, own, _ := strings.Cut(name, ":")
	at := slices.Index(names[attributeCount:], source)
	switch {
	case at < 0:
		return Attribute{}, errors.New("is not an attribute of a request; the attributes are " + AttributeSyntax)
	case own == "" || len(own) > maxAttributeName || strings.ContainsFunc(own, func(r rune) bool { return !isNameByte(r) }):
		return Attribute{}, errors.New("needs a name of 1 to 64 letters, digits, dots, - and _, for example header:accept-language")
	}
	if at+attributeCount == headerIndex {
		return Header(own), nil
	}
	return Attribute{int8(at + attributeCount), own}, nil //nolint:gosec // few
}

func isNameByte(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.'
}

// String returns the name in the API and in policy files.
func (a Attribute) String() string {
	if a.isNamed() {
		return names[a.index] + ":" + a.name
	}
	return names[a.index]
}

// Source returns the word before the name of a header, a parameter or a cookie, and that name; "" for
// other attributes.
func (a Attribute) Source() (source, name string) {
	if !a.isNamed() {
		return "", ""
	}
	return names[a.index], a.name
}

// isNamed reports whether a is a header, a parameter or a cookie.
func (a Attribute) isNamed() bool { return a.index >= attributeCount }

// IsFound reports whether the node finds the value by itself, from the address and the agent.
func (a Attribute) IsFound() bool { return a.index >= Country.index && a.index <= Verified.index }

func (a Attribute) compare(b Attribute) int {
	return cmp.Or(cmp.Compare(a.index, b.index), strings.Compare(a.name, b.name))
}

// CompareNames compares names of attributes by the order of these.
func CompareNames(a, b string) int {
	first, firstErr := ParseAttribute(a)
	second, secondErr := ParseAttribute(b)
	if firstErr != nil || secondErr != nil {
		return strings.Compare(a, b)
	}
	return first.compare(second)
}

// Words returns the attribute as it is called in a sentence.
func (a Attribute) Words() string {
	switch {
	case a.index == queryIndex:
		return "parameter " + a.name
	case a.isNamed():
		return names[a.index] + " " + a.name
	case a == Verified:
		return "verification"
	case a == JA4:
		return "JA4 fingerprint"
	}
	return names[a.index]
}

// maxLength is the maximum length of each attribute that has no name of its own.
var maxLength = [attributeCount]int{MaxPath, MaxMethod, MaxAgent, MaxHost, 8, 64, 2, 10, 128, 32, 16}

// MaxLength returns the maximum length of the attribute's value, in bytes.
func (a Attribute) MaxLength() int {
	if a.isNamed() {
		return MaxValue
	}
	return maxLength[a.index]
}

// fold returns a value or a pattern in the case in which it is compared.
func (a Attribute) fold(text string) string {
	switch a {
	case Path:
		return text
	case Country:
		return strings.ToUpper(text)
	}
	return lower(text)
}

// check returns an error if a pattern without stars can match no value of the attribute.
func (a Attribute) check(text string) error {
	oneOf := func(all []string, example string) error {
		if slices.Contains(all, text) || strings.Contains(text, "*") {
			return nil
		}
		return errors.New("is none of " + strings.Join(all, ", ") + "; write for example " + example)
	}
	switch a {
	case Scheme:
		return oneOf([]string{"http", "https"}, "http")
	case Category:
		return oneOf(Categories(), "ai-training")
	case Verified:
		return oneOf(Verifications(), "not claimed")
	case Country:
		if len(text) != 2 && !strings.Contains(text, "*") || strings.ContainsFunc(text, func(r rune) bool { return (r < 'A' || r > 'Z') && r != '*' }) {
			return errors.New("is no code of a country; write its two letters, for example NL")
		}
	case ASN:
		if strings.ContainsFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '*' }) {
			return errors.New("is no number of an autonomous system, for example 64500")
		}
	}
	return nil
}
