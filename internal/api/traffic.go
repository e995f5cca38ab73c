package api

import (
	"context"
	"encoding/csv"
	"io"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/breakdown"
	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// trafficHandler serves the numbers of checks over time and by rule.
type trafficHandler struct {
	common
	detection *admin.Detection
}

func (h *trafficHandler) routes() []route {
	return []route{
		routes.Answers(wire.GetTraffic, h.getTraffic),
		routes.Answers(wire.RuleTotals, h.getRuleTotals),
		routes.Answers(wire.GetTrafficBy, h.getTrafficBy),
		routes.Writes(wire.ExportTrafficBy, openapi.Answer{Types: []string{"application/json", "text/csv"}, Headers: file}, h.exportTrafficBy),
	}
}

// maxPoints is the maximum number of points in a time range.
const maxPoints = 2000

func (h *trafficHandler) getTraffic(c *httpserver.Call, in wire.TrafficOf) (out wire.Traffic, err error) {
	from, to, err := h.timesOf(in.TimeRange)
	if err != nil {
		return out, err
	}
	step, err := stepOf(in.Step, to.Sub(from))
	if err != nil {
		return out, err
	}
	policy, err := h.policyOf(in.Policy)
	if err != nil {
		return out, err
	}
	series, err := h.detection.Traffic(c.Context(), policy, from, to, step)
	if err != nil {
		return out, err
	}
	out = wire.Traffic{From: wire.At(series.From), To: wire.At(series.To), StepMS: series.Step.Milliseconds(), Points: make([]wire.TrafficPoint, 0, len(series.Points))}
	for _, p := range series.Points {
		out.Points = append(out.Points, wire.TrafficPoint{
			At: wire.At(p.At), Allowed: p.Allowed, Limited: p.Limited, Blocked: p.Blocked, Challenged: p.Challenged, Unavailable: p.Unavailable,
			ShadowLimited: p.ShadowLimited, KeysEstimate: p.Keys, KeysError: offences.DistinctError,
		})
	}
	return out, nil
}

// stepOf returns the length of each part of a span, in whole minutes. By default a span has about
// 100 parts.
func stepOf(text string, span time.Duration) (time.Duration, error) {
	step := max(time.Minute, (span / 100).Truncate(time.Minute))
	if text != "" {
		var err error
		if step, err = rules.ParseDuration(text); err != nil || step < time.Minute || step%time.Minute != 0 {
			return 0, fault.Field("step", `must be whole minutes, for example "1m" or "1h"`)
		}
	}
	if span/step > maxPoints {
		return 0, fault.Field("step", "divides the time range into too many parts; make it longer")
	}
	return step, nil
}

func (h *trafficHandler) getRuleTotals(c *httpserver.Call, in wire.TimeRange) (page wire.Page[wire.RuleTotal], err error) {
	from, to, err := h.timesOf(in)
	if err != nil {
		return page, err
	}
	rows, err := h.detection.Rules(c.Context(), from, to)
	return wire.WholePage(rows, func(r offences.RuleRow) wire.RuleTotal {
		return wire.RuleTotal{
			Policy: wire.NullString(h.policyName(r.Policy)), Decision: r.Kind.String(), RefusedBy: r.RefusedBy,
			Refused: r.Refused(), WouldRefuse: r.WouldRefuse(), Keys: r.Keys, Ratio: r.Ratio,
		}
	}), err
}

// The number of values of a dimension, and of clients.
const (
	defaultGroups = 50
	exportedMost  = breakdown.MaxValues
)

func (h *trafficHandler) getTrafficBy(c *httpserver.Call, in wire.TrafficBy) (wire.RequestBreakdown, error) {
	limit := in.Limit
	if limit == 0 {
		limit = defaultGroups
	}
	return h.trafficBy(c.Context(), in.Dimension, in.TrafficFilter, limit)
}

func (h *trafficHandler) trafficBy(ctx context.Context, dimension string, f wire.TrafficFilter, limit int) (out wire.RequestBreakdown, err error) {
	q := admin.RequestedQuery{Is: f.Is, Not: f.Not, Decision: f.Decision, By: []string{dimension}, Limit: limit}
	if q.From, q.To, err = h.timesOf(f.TimeRange); err != nil {
		return out, err
	}
	r, err := h.detection.Requested(ctx, q)
	if err != nil {
		return out, err
	}
	b := r.Breakdowns[0]
	out = wire.RequestBreakdown{
		From: wire.At(r.From), To: wire.At(r.To), Dimension: dimension, Total: fromCounts(r.Total), Unnamed: fromCounts(b.Unnamed), Overcount: b.Overcount, Unsure: r.Unsure, Unread: r.Unread,
		Items: make([]wire.RequestGroup, 0, len(b.Groups)), Clients: fromClients(r.Clients), Offenders: fromClients(r.Offenders),
		ClientsOvercount: r.ClientsMissing, OffendersOvercount: r.OffendersMissing,
	}
	for _, g := range b.Groups {
		out.Items = append(out.Items, wire.RequestGroup{Value: wire.NullString(g.Value), RequestCounts: fromCounts(g.Counts)})
	}
	return out, nil
}

func fromCounts(c breakdown.Counts) wire.RequestCounts {
	return wire.RequestCounts{Requests: c.Requests(), Allowed: c.Allowed, Limited: c.Limited, Blocked: c.Blocked, Challenged: c.Challenged, Unavailable: c.Unavailable, Reported: c.Reported}
}

func fromClients(all []breakdown.Client) []wire.RequestClient {
	out := make([]wire.RequestClient, 0, len(all))
	for _, c := range all {
		out = append(out, wire.RequestClient{Key: c.Key, Requests: c.Count})
	}
	return out
}

func (h *trafficHandler) exportTrafficBy(c *httpserver.Call, in wire.TrafficByExport) error {
	out, err := h.trafficBy(c.Context(), in.Dimension, in.TrafficFilter, exportedMost)
	if err != nil {
		return err
	}
	if in.Format != "csv" {
		return httpserver.Stream(c, "application/json", "traffic-by-"+in.Dimension+".json", func(_ context.Context, w io.Writer) error {
			return json.MarshalWrite(w, out.Items)
		})
	}
	return httpserver.Stream(c, "text/csv; charset=utf-8", "traffic-by-"+in.Dimension+".csv", func(_ context.Context, w io.Writer) error {
		rows := csv.NewWriter(w)
		cells := make([]string, len(wire.RequestGroupColumns))
		for i, column := range wire.RequestGroupColumns {
			cells[i] = column.Name
		}
		if err := rows.Write(cells); err != nil {
			return err
		}
		for i := range out.Items {
			for at, column := range wire.RequestGroupColumns {
				cells[at] = escape.CSV(column.Cell(&out.Items[i]))
			}
			if err := rows.Write(cells); err != nil {
				return err
			}
		}
		rows.Flush()
		return rows.Error()
	})
}
