package crowdsec

import (
	"net/netip"
	"net/url"
	"strings"

	"github.com/stint-dev/stint/internal/bouncers"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
)

// query is the query of a bouncer. Unknown parameters are ignored, as CrowdSec does.
type query struct {
	startup bool
	address netip.Addr
	network netip.Prefix
	scope   string
	value   string
	kind    string // type of decisions
	filter  bouncers.Filter
}

func parseQuery(c *httpserver.Call) (*query, error) {
	values, err := url.ParseQuery(string(c.Request().URI().QueryString()))
	if err != nil {
		return nil, fault.New(fault.Malformed, "The query is not well encoded.")
	}
	q := &query{
		startup: values.Get("startup") == "true", kind: strings.ToLower(values.Get("type")),
		scope: strings.ToLower(values.Get("scope")), value: values.Get("value"),
	}
	for name, into := range map[string]*[]string{
		"scopes": &q.filter.Scopes, "origins": &q.filter.Origins,
		"scenarios_containing": &q.filter.Containing, "scenarios_not_containing": &q.filter.NotContained,
	} {
		if *into = list(values, name); len(*into) > maxListed {
			return nil, fault.Field(name, "has more than %d values", maxListed)
		}
	}
	address, network := values.Get("ip"), values.Get("range")
	switch q.scope {
	case "ip":
		address = q.value
	case "range":
		network = q.value
	}
	if address != "" {
		if q.address, err = netip.ParseAddr(address); err != nil {
			return nil, fault.Field("ip", "is not an IP address")
		}
		q.address = q.address.Unmap().WithZone("")
	}
	if network != "" {
		if q.network, err = netip.ParsePrefix(network); err != nil || q.network.Addr().Is4In6() {
			return nil, fault.Field("range", "is not a range, for example 192.0.2.0/24")
		}
		q.network = q.network.Masked()
	}
	return q, nil
}

// isOpen reports whether the query names no key, address or range, and so selects everything.
func (q *query) isOpen() bool {
	return !q.address.IsValid() && !q.network.IsValid() && (q.scope == "" || q.value == "")
}

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
