package forwardauth

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/wire"
)

// Query is the query in the proxy's configuration, which the operator writes. The zero value
// checks the client's address under the best matching policy.
type Query struct {
	// Policy is the name of the policy, "" for the best match of each key.
	Policy string
	// Cost is the cost of a request; 0 means 1.
	Cost int
	// By are the parts of the request that become keys; none means the address. Several keys
	// are checked as one: all are charged or none.
	By []By
	// Refuse403 answers every refusal with 403, for proxies that support no other status.
	Refuse403 bool
	// Pages401 beside Refuse403 answers refused navigations with 401: the proxy shows the page that
	// Stint has for them.
	Pages401 bool
	// Source is shown to people as the source of the check.
	Source string
	// Scope is the part of the application that the request is for, "" for none.
	Scope string
	// IDHeader is the header in which the proxy sends an id of the request. A request is
	// charged once, however often the proxy checks it. "" for none.
	IDHeader string
	// Sends are the headers and cookies that the proxy sends of its client's requests, nil if that is not
	// said: then it sends all, unless Target has the target.
	Sends []conditions.Attribute
	// Target is the target of the client's request if the query contains it, "" otherwise.
	Target string
}

// By is a part of a request that becomes a key.
type By struct {
	Kind Kind
	// Name is the name of the header or cookie. For ByPath it is the header with the target of
	// the client's request, and for BySeveral the parts with + between.
	Name string
}

// Kind is the kind of a part of the request.
type Kind uint8

// The kinds. The values of headers and cookies may be secrets, so a key contains their hash;
// ByPlainHeader is for values that are not secret.
const (
	ByIP          Kind = iota // "ip:192.0.2.1"
	ByHeader                  // "header:x-api-key:<hash>"
	ByPlainHeader             // "header:x-user:alice"
	ByCookie                  // "cookie:session:<hash>"
	ByHost                    // "host:example.org"
	ByPath                    // "path:/login"
	ByMethod                  // "method:POST"
	BySeveral                 // "ip+path:192.0.2.1|/login"
)

const partsJoiner = "+"

// The parameters of the query.
const (
	paramPolicy = "policy"
	paramCost   = "cost"
	paramBy     = "by"
	paramRefuse = "refuse"
	paramSource = "source"
	paramScope  = "scope"
	paramID     = "id"
	paramSends  = "sends"
	// paramPath is the last parameter: everything after it is the target of the client's
	// request. It is for gateways such as Envoy that append the client's path and query to a
	// prefix, and what they append must not be parsed as parameters.
	paramPath = "path"
)

const (
	maxName = 64 // bytes of the name of a header or cookie
)

// singleParams are the parameters that may occur only once. Their indexes are bits of a set.
var singleParams = []string{paramPolicy, paramCost, paramRefuse, paramSource, paramScope, paramID, paramSends}

// parse parses the encoded parameters of a query into q, which must be zero. An error is a
// *fault.Error that names the parameter.
func (q *Query) parse(raw string) error {
	seen := 0
	for pair := range strings.SplitSeq(raw, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name, nameErr := url.QueryUnescape(name)
		value, err := url.QueryUnescape(value)
		bit := 1 << (1 + slices.Index(singleParams, name)) &^ 1 // 0 for other parameters
		switch {
		case nameErr != nil || err != nil:
			return fault.Field(escape.Log(name), "is not well encoded: write %%25 for a percent sign")
		case seen&bit != 0:
			return fault.Field(escape.Log(name), "is sent twice; send it once")
		case !utf8.ValidString(value):
			return fault.Field(escape.Log(name), "is not valid UTF-8")
		}
		seen |= bit
		if err := q.set(name, value); err != nil {
			return err
		}
	}
	return nil
}

func (q *Query) set(name, value string) error {
	switch name {
	case paramPolicy:
		q.Policy = value
	case paramCost:
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > wire.MaxAmount {
			return fault.Field(name, "must be a whole number from 1 to %d", wire.MaxAmount)
		}
		q.Cost = n
	case paramBy:
		return q.addBy(value)
	case paramRefuse:
		if value != "403" && value != "401" {
			return fault.Field(name, "must be 403, which answers every refusal with that status, or 401, which does so but for refused browsers, "+
				"which a page is shown; leave it out for 429, 403 and 503")
		}
		q.Refuse403, q.Pages401 = true, value == "401"
	case paramSource:
		q.Source = value
		return fault.CheckLine(name, value, wire.MaxSource)
	case paramScope:
		if err := conditions.CheckScope(value); err != nil {
			return fault.Field(name, "%s", err)
		}
		q.Scope = value
	case paramID:
		header, is := strings.CutPrefix(value, "header:")
		if !is || !isName(header) {
			return fault.Field(name, "must be header: and the name of the header that holds the id, for example header:X-Request-Id")
		}
		q.IDHeader = header
	case paramSends:
		q.Sends = []conditions.Attribute{}
		for name := range strings.SplitSeq(value, ",") {
			a, err := conditions.ParseAttribute(name)
			if source, _ := a.Source(); err != nil || source != "header" && source != "cookie" {
				return fault.Field(paramSends, "must be headers and cookies with commas between, for example header:Accept,cookie:session")
			}
			q.Sends = append(q.Sends, a)
		}
	default:
		return fault.Field(escape.Log(name), "is not a parameter here; the parameters are policy, cost, by, refuse, source, scope, id, sends and, last, path")
	}
	return nil
}

// kinds are the values of the parameter by, and whether a name follows.
var kinds = map[string]struct {
	kind            Kind
	takes, requires bool
}{
	"ip":           {ByIP, false, false},
	"header":       {ByHeader, true, true},
	"plain-header": {ByPlainHeader, true, true},
	"cookie":       {ByCookie, true, true},
	"host":         {ByHost, false, false},
	"path":         {ByPath, true, false},
	"method":       {ByMethod, false, false},
}

// kindNames are the words of kinds.
var kindNames = func() map[Kind]string {
	names := map[Kind]string{}
	for name, known := range kinds {
		names[known.kind] = name
	}
	return names
}()

// parseBy parses one part of a request.
func parseBy(value string) (By, error) {
	text, name, named := strings.Cut(value, ":")
	known, found := kinds[text]
	switch {
	case !found:
		return By{}, fault.Field(paramBy, "must be ip, header:NAME, plain-header:NAME, cookie:NAME, host, path, path:HEADER or method, or several of them with + between, as ip+path")
	case named && !known.takes:
		return By{}, fault.Field(paramBy, "%s takes no name behind a colon", text)
	case !named && known.requires:
		return By{}, fault.Field(paramBy, "%[1]s needs a name; write %[1]s:NAME", text)
	case named && known.kind != ByCookie && !isName(name):
		return By{}, fault.Field(paramBy, "the name behind %s: must be 1 to %d letters, digits, - and _", text, maxName)
	case named && known.kind == ByCookie && !isCookieName(name):
		return By{}, fault.Field(paramBy, "the name behind %s: must be 1 to %d letters, digits, dots, - and _", text, maxName)
	}
	return By{known.kind, name}, nil
}

// maxTogether is how many parts one key may have.
const maxTogether = 4

func (q *Query) addBy(value string) error {
	// A query writes a space as +, which is what is meant between parts.
	parts := strings.FieldsFunc(value, func(r rune) bool { return r == '+' || r == ' ' })
	by := By{Kind: BySeveral, Name: strings.Join(parts, partsJoiner)}
	for i, part := range parts {
		one, err := parseBy(part)
		switch {
		case err != nil:
			return err
		case len(parts) == 1:
			by = one
		case len(parts) > maxTogether || slices.Contains(parts[:i], part):
			return fault.Field(paramBy, "has the same part twice, or more than %d parts with + between", maxTogether)
		}
	}
	switch {
	case len(parts) == 0:
		_, err := parseBy(value)
		return err
	case len(q.By) == wire.MaxKeys:
		return fault.Field(paramBy, "is sent more than %d times", wire.MaxKeys)
	}
	if slices.Contains(q.By, by) {
		return fault.Field(paramBy, "names %s twice", escape.Log(value))
	}
	q.By = append(q.By, by)
	return nil
}

// isCookieName reports whether text is a valid name of a cookie, such as "connect.sid".
func isCookieName(text string) bool {
	return len(text) <= maxName && isName(strings.ReplaceAll(text, ".", "_"))
}

// isName reports whether text is a valid name of a header.
func isName(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return text != "" && len(text) <= maxName
}
