package crowdsec

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/bouncers"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

// query is the query of a bouncer. Unknown parameters are ignored, as CrowdSec does.
type query struct {
	startup bool
	address netip.Addr
	network netip.Prefix
	value   string   // of keys that are not addresses
	scopes  []string // of value
	none    bool     // a value that no ban has
	filter  bouncers.Filter
}

func parseQuery(c *httpserver.Call) (*query, error) {
	values, err := url.ParseQuery(string(c.Request().URI().QueryString()))
	if err != nil {
		return nil, fault.New(fault.Malformed, "The query is not well encoded.")
	}
	q := &query{startup: values.Get("startup") == "true"}
	q.filter.Type = bouncers.Type(strings.ToLower(values.Get("type")))
	// A bouncer that asks for captchas by name knows them. The others ban, or some of them, where no captcha
	// is set up: the token must say that one is.
	q.filter.Captchas = q.filter.Type == bouncers.TypeCaptcha || c.Principal.May(identity.Captcha) && bouncers.ShowsCaptchas(caller(c).Type)
	for name, into := range map[string]*[]string{
		"scopes": &q.filter.Scopes, "origins": &q.filter.Origins,
		"scenarios_containing": &q.filter.Containing, "scenarios_not_containing": &q.filter.NotContained,
	} {
		if *into = list(values, name); len(*into) > maxListed {
			return nil, fault.Field(name, "has more than %d values", maxListed)
		}
	}
	if err := q.parseValue(values); err != nil {
		return nil, err
	}
	// A parameter without a value is refused: it would select everything, which a bouncer that asks
	// about one address takes for a ban of that address.
	if values.Has("ip") {
		if err := q.parseAddress(values.Get("ip")); err != nil {
			return nil, err
		}
	}
	if values.Has("range") {
		if err := q.parseNetwork(values.Get("range")); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// parseValue reads the parameters scope and value.
func (q *query) parseValue(values url.Values) error {
	scope, value := strings.ToLower(values.Get("scope")), values.Get("value")
	_, err := netip.ParsePrefix(value)
	isNetwork := err == nil
	_, err = netip.ParseAddr(value)
	isAddress := err == nil
	switch {
	case !values.Has("value") && scope == "":
		return nil
	case !values.Has("value"):
		q.filter.Scopes = append(q.filter.Scopes, scope)
	case value == "":
		q.none = true
	case scope == "ip" || scope == "" && isAddress:
		return q.parseAddress(value)
	case scope == "range" || scope == "" && isNetwork:
		return q.parseNetwork(value)
	case scope != "":
		q.value, q.scopes = value, []string{scope}
	default:
		q.value = value
		for _, s := range q.filter.Scopes {
			if s = strings.ToLower(s); s != "ip" && s != "range" && !slices.Contains(q.scopes, s) {
				q.scopes = append(q.scopes, s)
			}
		}
		q.none = len(q.scopes) == 0
	}
	return nil
}

func (q *query) parseAddress(text string) error {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return fault.Field("ip", "is not an IP address")
	}
	q.address = address.Unmap().WithZone("")
	return nil
}

func (q *query) parseNetwork(text string) error {
	network, err := netip.ParsePrefix(text)
	if err != nil || network.Addr().Is4In6() {
		return fault.Field("range", "is not a range, for example 192.0.2.0/24")
	}
	q.network = network.Masked()
	return nil
}

// isOpen reports whether the query names no key, address or range, and so selects everything.
func (q *query) isOpen() bool { return !q.address.IsValid() && !q.network.IsValid() && q.value == "" }

// maxListed bounds the values of a parameter, since each block is compared with each value.
const maxListed = 100

// list returns the comma-separated values of a parameter.
func list(values url.Values, name string) []string {
	var all []string
	for _, text := range values[name] {
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part != "" {
				all = append(all, part)
			}
		}
	}
	return all
}
