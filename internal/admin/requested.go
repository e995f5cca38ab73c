package admin

import (
	"context"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/breakdown"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/offences"
)

// RequestedQuery selects what was requested.
type RequestedQuery struct {
	From, To time.Time
	Is, Not  string        // filters, separated by commas
	By       []string      // the wanted dimensions
	Decision string        // that ranks the values, "" for all requests
	Step     time.Duration // of the points, 0 for none
	Limit    int           // of the values of each dimension
}

// Requested is what was requested in a time range. Policies have their names as values.
type Requested struct {
	offences.TrafficSeries // without Points: the time range and the step that were read
	breakdown.Result
	Filters breakdown.Filters
}

// FiltersOf parses filters that are separated by commas; a comma that no dimension follows is part of
// the value before it.
func FiltersOf(is, not string) (breakdown.Filters, error) {
	return breakdown.ParseFilters(splitFilters(is), splitFilters(not))
}

func splitFilters(text string) (all []string) {
	if text == "" {
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, _, _ := strings.Cut(part, "=")
		if _, is := breakdown.Find(name); is || len(all) == 0 {
			all = append(all, part)
		} else {
			all[len(all)-1] += "," + part
		}
	}
	return all
}

// policyDimension is the name of the dimension whose values are ids of policies.
const policyDimension = "policy"

// Requested divides what was requested by dimensions.
func (d *Detection) Requested(ctx context.Context, q RequestedQuery) (*Requested, error) {
	filters, err := FiltersOf(q.Is, q.Not)
	if err != nil {
		return nil, err
	}
	r := &Requested{Filters: filters}
	query := breakdown.Query{Of: q.Decision}
	for _, f := range filters {
		if breakdown.Dimensions[f.Dimension].Name == policyDimension && f.Value != "" {
			p, found := d.View.Selector().ByName(f.Value)
			if !found {
				return nil, fault.NoSuch("policy", "there is no policy of that name")
			}
			f.Value = breakdown.PolicyValue(p.ID)
		}
		query.Filters = append(query.Filters, f)
	}
	for _, name := range q.By {
		i, known := breakdown.Find(name)
		if !known {
			return nil, fault.NoSuch("dimension", "there is no dimension of that name, only %s", strings.Join(breakdown.Names(), ", "))
		}
		query.By = append(query.By, i)
	}
	err = d.Store.Breakdowns(ctx, d.now(), q.From, q.To, q.Step, func(read offences.TrafficSeries) {
		r.TrafficSeries = read
		query.Start, query.Step = read.From, read.Step
	}, func(start time.Time, t *breakdown.Table) error {
		query.Add(start, t)
		return nil
	})
	if err != nil {
		return nil, err
	}
	r.Result = *query.Result(q.Limit)
	for _, b := range r.Breakdowns {
		if breakdown.Dimensions[b.Dimension].Name != policyDimension {
			continue
		}
		for i := range b.Groups {
			if g := &b.Groups[i]; g.Value != "" {
				if p, found := d.View.Selector().ByID(breakdown.PolicyID(g.Value)); found {
					g.Value = p.Name
				} else {
					g.Value = "#" + g.Value // it was deleted
				}
			}
		}
	}
	return r, nil
}
