package admin

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/breakdown"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/offences"
)

// RequestedQuery selects what was requested.
type RequestedQuery struct {
	From, To time.Time
	Is, Not  string        // as breakdown.ParseFilters reads them
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

// policyDimension is the name of the dimension whose values are ids of policies.
const policyDimension = "policy"

// Requested divides what was requested by dimensions.
func (d *Detection) Requested(ctx context.Context, q RequestedQuery) (*Requested, error) {
	if q.Decision != "" && !slices.Contains(breakdown.Decisions, q.Decision) {
		return nil, fault.Field("decision", "must be one of %s", strings.Join(breakdown.Decisions, ", "))
	}
	filters, err := breakdown.ParseFilters(q.Is, q.Not)
	if err != nil {
		return nil, err
	}
	r := &Requested{Filters: filters}
	query := breakdown.Query{Of: q.Decision}
	if query.Filters, err = d.filtersOfPolicies(filters); err != nil {
		return nil, err
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
		query.Start, query.Step = read.First(), read.Step
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
					g.Value = deletedPolicy + g.Value
				}
			}
		}
	}
	return r, nil
}

// deletedPolicy is before the id of a policy that has no name any more.
const deletedPolicy = "#"

// filtersOfPolicies returns filters with the ids of the policies that they name as the answers do.
func (d *Detection) filtersOfPolicies(filters breakdown.Filters) (all breakdown.Filters, err error) {
	for _, f := range filters {
		if breakdown.Dimensions[f.Dimension].Name != policyDimension || f.Value == "" {
			all = append(all, f)
			continue
		}
		found := len(all)
		for _, p := range d.View.Selector().Policies() {
			if f.Has(p.Name) {
				all = append(all, breakdown.Filter{Dimension: f.Dimension, Value: breakdown.PolicyValue(p.ID), Not: f.Not})
			}
		}
		if id := breakdown.PolicyID(strings.TrimPrefix(f.Value, deletedPolicy)); id != 0 && strings.HasPrefix(f.Value, deletedPolicy) {
			all = append(all, breakdown.Filter{Dimension: f.Dimension, Value: breakdown.PolicyValue(id), Not: f.Not})
		}
		if len(all) == found && !f.Not { // without a policy, there is nothing to leave out
			return nil, fault.NoSuch("policy", "there is no policy of that name")
		}
	}
	return all, nil
}
