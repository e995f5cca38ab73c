package admin

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
)

// ViewStore stores the saved views and records changes in the audit log.
type ViewStore interface {
	FindViews(ctx context.Context) ([]offences.SavedView, error)
	FindView(ctx context.Context, id string) (offences.SavedView, error)
	AddView(ctx context.Context, by audit.Actor, name, query string) (offences.SavedView, error)
	// ChangeView leaves nil fields unchanged.
	ChangeView(ctx context.Context, by audit.Actor, id string, name, query *string) (offences.SavedView, error)
	DeleteView(ctx context.Context, by audit.Actor, id string) error
}

// FilterCatalog is used to parse filters of offenders.
type FilterCatalog interface {
	Parser() keys.Parser
	Selector() *rules.Selector
}

// Views saves named filters of the report of offenders, for all users.
type Views struct {
	Store   ViewStore
	Catalog FilterCatalog
}

// List returns all saved views by name.
func (v *Views) List(ctx context.Context) ([]offences.SavedView, error) {
	return v.Store.FindViews(ctx)
}

// Find returns a saved view.
func (v *Views) Find(ctx context.Context, id string) (offences.SavedView, error) {
	return v.Store.FindView(ctx, id)
}

// Save saves a new view; query contains encoded parameters of GET /v1/offenders.
func (v *Views) Save(ctx context.Context, by Caller, name, query string) (offences.SavedView, error) {
	name, err := checkViewName(name)
	if err != nil {
		return offences.SavedView{}, err
	}
	if query, err = v.Canonical(query); err != nil {
		return offences.SavedView{}, err
	}
	return v.Store.AddView(ctx, by.Actor, name, query)
}

// Change renames a view or replaces its query; nil leaves a value unchanged.
func (v *Views) Change(ctx context.Context, by Caller, id string, name, query *string) (offences.SavedView, error) {
	if name != nil {
		checked, err := checkViewName(*name)
		if err != nil {
			return offences.SavedView{}, err
		}
		name = &checked
	}
	if query != nil {
		canonical, err := v.Canonical(*query)
		if err != nil {
			return offences.SavedView{}, err
		}
		query = &canonical
	}
	return v.Store.ChangeView(ctx, by.Actor, id, name, query)
}

// Delete deletes a saved view.
func (v *Views) Delete(ctx context.Context, by Caller, id string) error {
	return v.Store.DeleteView(ctx, by.Actor, id)
}

func checkViewName(name string) (string, error) {
	name = strings.TrimSpace(name)
	if name == "" {
		return "", fault.Field("name", "is empty")
	}
	if err := fault.CheckLine("name", name, offences.MaxViewName*utf8.UTFMax); err != nil {
		return "", err
	}
	if n := utf8.RuneCountInString(name); n > offences.MaxViewName {
		return "", fault.Field("name", "has %d characters; at most %d are allowed", n, offences.MaxViewName)
	}
	return name, nil
}

const (
	maxViewQuery = 4096
	maxViewSpan  = 400 * 24 * time.Hour
	maxFilter    = 1024 // bytes of one parameter
)

// filterParams and rangeParams are the parameters of a saved view: those of the report without
// its page.
var (
	filterParams = []string{"policy", "pattern", "source", "search", "rule", "not_rule", "min_offences", "shadow", "state", "sort"}
	rangeParams  = []string{"last", "from", "to"}
)

// Canonical checks the query of a view and returns its canonical form: without empty
// parameters, sorted by name, with a time range. Its errors concern the field query.
func (v *Views) Canonical(query string) (string, error) {
	if len(query) > maxViewQuery {
		return "", fault.Field("query", "has %d bytes; at most %d are allowed", len(query), maxViewQuery)
	}
	values, err := url.ParseQuery(strings.TrimPrefix(query, "?"))
	if err != nil {
		return "", fault.Field("query", "cannot be read; write it as in an address, for example state=open&last=24h")
	}
	known := slices.Concat(filterParams, rangeParams)
	for name, all := range values {
		switch {
		case !slices.Contains(known, name):
			return "", fault.Field("query", "has an unknown parameter; the parameters are %s", strings.Join(known, ", "))
		case len(all) > 1:
			return "", fault.Field("query", "has %s twice; write it once", name)
		case all[0] == "":
			values.Del(name)
		}
	}
	filter, err := ParseOffenderFilter(v.Catalog, values)
	if err == nil {
		err = checkTimeRange(values)
	}
	if wrong := (*fault.Error)(nil); errors.As(err, &wrong) && wrong.Field != "" {
		inQuery := fault.Field("query", "%s: %s", wrong.Field, wrong.Message)
		inQuery.Detail = wrong.Detail
		return "", inQuery
	}
	if err != nil {
		return "", err
	}
	if values.Has("pattern") {
		values.Set("pattern", filter.Pattern.String())
	}
	for name, text := range map[string]string{"rule": filter.Rule, "not_rule": filter.NotRule} {
		if text != "" {
			values.Set(name, text)
		}
	}
	if !filter.Shadow {
		values.Del("shadow")
	}
	if filter.Sort == offences.ByOffences {
		values.Del("sort") // the default order of reports
	}
	return values.Encode(), nil
}

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
		if q.MinOffences, err = strconv.ParseInt(text, 10, 64); err != nil || q.MinOffences < 1 || q.MinOffences > 1_000_000_000 {
			return q, fault.Field("min_offences", "must be a whole number from 1 to 1000000000")
		}
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

// checkTimeRange checks the time range of a saved view and makes it canonical: last, or from
// with an optional to; the default is the last hour.
func checkTimeRange(values url.Values) error {
	from, err := instantOf(values, "from")
	if err != nil {
		return err
	}
	to, err := instantOf(values, "to")
	if err != nil {
		return err
	}
	switch {
	case values.Has("last") && (values.Has("from") || values.Has("to")):
		return fault.Field("last", "cannot be combined with from or to")
	case values.Has("to") && !values.Has("from"):
		return fault.Field("to", "needs from")
	case values.Has("to") && !from.Before(to):
		return fault.Field("to", "must be after from")
	case values.Has("to") && to.Sub(from) > maxViewSpan:
		return fault.Field("from", "must be at most 400 days before to")
	case values.Has("from"):
		return nil
	}
	last := time.Hour
	if text := values.Get("last"); text != "" {
		if last, err = rules.ParseDuration(text); err != nil || last < time.Minute || last > maxViewSpan {
			return fault.Field("last", "must be a duration from 1m to 400d, for example 24h")
		}
	}
	values.Set("last", rules.FormatDuration(last))
	return nil
}

// instantOf parses an instant, zero for none, and makes its text canonical.
func instantOf(values url.Values, name string) (time.Time, error) {
	text := values.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || at.IsZero() || at.Year() < 1 || at.Year() > 9999 {
		return at, fault.Field(name, "must be an RFC 3339 time, for example 2026-01-31T12:00:00Z")
	}
	at = at.UTC().Truncate(time.Second)
	values.Set(name, at.Format(time.RFC3339))
	return at, nil
}
