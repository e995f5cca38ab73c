package admin

import (
	"net/url"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
)

// FilterCatalog is used to parse filters of offenders.
type FilterCatalog interface {
	Parser() keys.Parser
	Selector() *rules.Selector
}

const maxFilter = 1024 // bytes of one parameter

// filterParams are the parameters of the report of offenders without its time range and page.
var filterParams = []string{"policy", "pattern", "source", "search", "rule", "not_rule", "min_offences", "shadow", "state", "sort"}

// ParseOffenderFilter parses the filter and the order of a report of offenders. The caller
// parses the time range and the page. Errors name the parameter.
func ParseOffenderFilter(known FilterCatalog, values url.Values) (offences.Query, error) {
	q := offences.Query{
		Search: values.Get("search"), Source: values.Get("source"), Rule: canonicalRule(values.Get("rule")), NotRule: canonicalRule(values.Get("not_rule")),
		Shadow: values.Get("shadow") == "true", Sort: offences.Sort(values.Get("sort")), State: offences.Triage(values.Get("state")),
	}
	for _, name := range filterParams {
		if err := fault.CheckLine(name, values.Get(name), maxFilter); err != nil {
			return q, err
		}
	}
	for name, some := range map[string][]string{
		"shadow": {"true", "false"}, "sort": {string(offences.ByOffences), string(offences.ByLast), string(offences.ByFirst), string(offences.ByKey)},
		"state": {string(offences.TriageOpen), string(offences.TriageBlocked), string(offences.TriageExempt)},
	} {
		if value := values.Get(name); value != "" && !slices.Contains(some, value) {
			return q, fault.Field(name, "must be one of %s", strings.Join(some, ", "))
		}
	}
	var err error
	if text := values.Get("min_offences"); text != "" {
		n, err := rules.ParseCount(text)
		if err != nil || n < 1 || n > 1_000_000_000 {
			return q, fault.Field("min_offences", "must be a whole number from 1 to 1,000,000,000")
		}
		q.MinOffences = int64(n)
	}
	if text := values.Get("pattern"); text != "" {
		if q.Pattern, err = fault.ReadPattern(FilterReading(known), "pattern", text); err != nil {
			return q, err
		}
	}
	if name := values.Get("policy"); name != "" {
		p, found := known.Selector().ByName(name)
		if !found {
			return q, fault.NoSuch("policy", "there is no policy of that name")
		}
		q.Policy = p.ID
	}
	return q, nil
}

// canonicalRule returns the canonical text of a rule. It returns any other text unchanged,
// since that may be the id of a block.
func canonicalRule(text string) string {
	if r, err := rules.ParseRule(text); err == nil {
		return r.String()
	}
	return text
}
