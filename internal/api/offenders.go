package api

import (
	"context"
	"encoding/csv"
	"io"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/wire"
)

// offenderHandler serves the offenders, single refusals, the attack in progress and those before.
type offenderHandler struct {
	common
	detection *admin.Detection
	origins   *operations.Origins
}

func (h *offenderHandler) routes() []route {
	return []route{
		routes.Answers(wire.ListOffenders, h.listOffenders),
		routes.Writes(wire.ExportOffenders, openapi.Answer{Types: []string{"application/json", "text/csv"}, Headers: file}, h.exportOffenders),
		routes.Answers(wire.ListOrigins, h.listOrigins),
		routes.Answers(wire.KeyTimeline, h.keyTimeline),
		routes.Answers(wire.GetOffence, h.getOffence),
		routes.Answers(wire.GetPolicyUsage, h.getPolicyUsage),
		routes.Answers(wire.GetAttack, h.getAttack),
		routes.Answers(wire.ListAttacks, h.listAttacks),
	}
}

func (h *offenderHandler) queryOf(f wire.OffenderFilter) (o offences.Query, err error) {
	o = offences.Query{
		Source: f.Source, Search: f.Search, Rule: f.Rule, NotRule: f.NotRule, MinOffences: int64(f.MinOffences), Shadow: f.Shadow,
		State: offences.Triage(f.State), Sort: offences.Sort(f.Sort),
	}
	if o.From, o.To, err = h.timesOf(f.TimeRange); err != nil {
		return o, err
	}
	if o.Policy, err = h.policyOf(f.Policy); err != nil {
		return o, err
	}
	if f.Pattern != "" {
		o.Pattern, err = h.pattern("pattern", f.Pattern)
	}
	return o, err
}

func (h *offenderHandler) listOffenders(c *httpserver.Call, in wire.OffenderList) (wire.OffenderReport, error) {
	o, err := h.queryOf(in.OffenderFilter)
	if err != nil {
		return wire.OffenderReport{}, err
	}
	o.Cursor, o.Limit, o.Points = in.Cursor, in.Limit, in.Points
	report, err := h.detection.Offenders(c.Context(), o)
	if err != nil {
		return wire.OffenderReport{}, err
	}
	return h.wireReport(report), nil
}

func (h *offenderHandler) wireReport(r *offences.OffenderReport) wire.OffenderReport {
	out := wire.OffenderReport{
		From: wire.At(r.From), To: wire.At(r.To), Keys: r.Keys, Offences: r.Ranking.Offences, Other: r.Other,
		AllowedExact: r.AllowedExact, Untracked: r.Untracked,
		Page: wire.Page[wire.Offender]{Items: make([]wire.Offender, 0, len(r.Rows)), NextCursor: wire.NullString(r.Next)},
	}
	total := int(r.Keys)
	out.Total = &total
	now := h.now()
	for i := range r.Rows {
		row := fromOffender(&r.Rows[i], h.policyName, now)
		row.Origin = fromOrigin(h.origins.Known(row.Key))
		out.Items = append(out.Items, row)
	}
	return out
}

// eachOffender calls do for every offender.
func (h *offenderHandler) eachOffender(ctx context.Context, o offences.Query, do func(wire.Offender) error) error {
	return h.detection.EachOffenderPage(ctx, o, func(report *offences.OffenderReport) error {
		for _, row := range h.wireReport(report).Items {
			if err := do(row); err != nil {
				return err
			}
		}
		return nil
	})
}

func (h *offenderHandler) exportOffenders(c *httpserver.Call, in wire.OffenderExport) error {
	o, err := h.queryOf(in.OffenderFilter)
	if err != nil {
		return err
	}
	if in.Format == "csv" {
		return httpserver.Stream(c, "text/csv; charset=utf-8", "offenders.csv", func(ctx context.Context, w io.Writer) error {
			return h.writeOffendersCSV(ctx, w, o)
		})
	}
	return httpserver.Stream(c, "application/json", "offenders.json", func(ctx context.Context, w io.Writer) error {
		separator := "["
		err := h.eachOffender(ctx, o, func(row wire.Offender) error {
			if _, err := io.WriteString(w, separator+"\n"); err != nil {
				return err
			}
			separator = ","
			return json.MarshalWrite(w, row)
		})
		if err != nil {
			return err
		}
		if separator == "[" {
			_, err = io.WriteString(w, "[]\n")
		} else {
			_, err = io.WriteString(w, "\n]\n")
		}
		return err
	})
}

func (h *offenderHandler) writeOffendersCSV(ctx context.Context, w io.Writer, o offences.Query) error {
	out := csv.NewWriter(w)
	cells := make([]string, len(wire.OffenderColumns))
	for i, column := range wire.OffenderColumns {
		cells[i] = column.Name
	}
	if err := out.Write(cells); err != nil {
		return err
	}
	err := h.eachOffender(ctx, o, func(row wire.Offender) error {
		for i, column := range wire.OffenderColumns {
			cells[i] = escape.CSV(column.Cell(&row))
		}
		return out.Write(cells)
	})
	if err != nil {
		return err
	}
	out.Flush()
	return out.Error()
}

func (h *offenderHandler) listOrigins(c *httpserver.Call, in wire.OriginList) (out wire.OriginReport, err error) {
	o, err := h.queryOf(in.OffenderFilter)
	if err != nil {
		return out, err
	}
	r, err := h.detection.Origins(c.Context(), o, in.By)
	if err != nil {
		return out, err
	}
	out = wire.OriginReport{From: wire.At(r.From), To: wire.At(r.To), Items: []wire.OriginOffences{}, Total: r.Total, Keys: r.Keys, Offences: r.Offences}
	for _, row := range r.Rows {
		out.Items = append(out.Items, wire.OriginOffences{
			Pattern: wire.NullString(row.Pattern.String()), Name: h.origins.NameOf(row.ASN), Keys: row.Keys, Offences: row.Offences, Ratio: row.Ratio, Blocked: row.IsBlocked,
		})
	}
	return out, nil
}

func (h *offenderHandler) keyTimeline(c *httpserver.Call, in wire.TimelineOf) (out wire.Timeline, err error) {
	from, to, err := h.timesOf(in.TimeRange)
	if err != nil {
		return out, err
	}
	key, err := h.key(in.Key)
	if err != nil {
		return out, err
	}
	points := in.Points
	if points == 0 {
		points = 60
	}
	t, err := h.detection.Timeline(c.Context(), key, from, to, points)
	if err != nil {
		return out, err
	}
	out = wire.Timeline{Key: t.Key, From: wire.At(t.From), To: wire.At(t.To), StepMS: t.Step.Milliseconds(), Allowed: t.Allowed,
		Points: make([]wire.TimelinePoint, 0, len(t.Points)), Events: make([]wire.EscalationEvent, 0, len(t.Events))}
	for _, p := range t.Points {
		out.Points = append(out.Points, wire.TimelinePoint{At: wire.At(p.At), Limited: p.Limited, Blocked: p.Blocked, Shadow: p.Shadow})
	}
	for _, e := range t.Events {
		out.Events = append(out.Events, fromEscalationEvent(e))
	}
	return out, nil
}

func (h *offenderHandler) getOffence(c *httpserver.Call, in wire.ByID) (wire.OffenceRecord, error) {
	e, err := h.detection.ExplainRefusal(c.Context(), in.ID)
	if err != nil {
		return wire.OffenceRecord{}, err
	}
	return wire.OffenceRecord{
		ID: e.ID, Minute: wire.At(e.Minute), Found: string(e.Found), Explanation: e.Text, Key: wire.NullString(e.Key),
		Policy: wire.NullString(e.Policy), Offences: fromOffences(e.Offences), Escalation: fromEscalationStatus(e.Escalation), Other: fromOffences(e.Other),
	}, nil
}

func (h *offenderHandler) getAttack(c *httpserver.Call, _ wire.None) (wire.Attack, error) {
	a, err := h.detection.Attack(c.Context())
	if err != nil {
		return wire.Attack{}, err
	}
	out := wire.Attack{At: wire.At(h.now()), Active: a.IsActive(), Now: rates(a.Now)}
	if out.InForce, err = h.detection.InForce(c.Context()); err != nil {
		return wire.Attack{}, err
	}
	if a.IsActive() {
		out.Since = wire.At(a.Since)
	}
	if a.HasBaseline {
		baseline := rates(a.Baseline)
		out.Baseline = &baseline
	}
	if source := a.Source; source != nil {
		out.Source = &wire.AttackSource{
			Pattern: source.Pattern.String(), Ratio: source.Ratio, Keys: source.Keys, Policy: wire.NullString(h.policyName(source.Policy)),
			Rule: wire.NullString(source.Rule), Blocked: source.IsBlocked, Exempt: source.IsExempt,
		}
	}
	return out, nil
}

func (h *offenderHandler) listAttacks(c *httpserver.Call, in wire.PageList) (wire.Page[wire.AnnouncedAttack], error) {
	page, next, err := h.detection.FindAttacks(c.Context(), in.Cursor, in.Limit)
	return wire.NewPage(page, next, fromAttack), err
}

func fromAttack(a *offences.AttackCourse) wire.AnnouncedAttack {
	out := wire.AnnouncedAttack{ID: a.ID, BeganAt: wire.At(a.Began), EndedAt: wire.At(a.Ended), Normal: a.Normal, Peak: a.Peak, Refused: a.Refused, Sources: []wire.AnnouncedSource{}}
	for _, s := range a.Sources {
		out.Sources = append(out.Sources, wire.AnnouncedSource{At: wire.At(s.At), AttackSource: wire.AttackSource{
			Pattern: s.Pattern, Ratio: s.Ratio, Keys: s.Keys, Policy: wire.NullString(s.Policy), Rule: wire.NullString(s.Rule), Blocked: s.IsBlocked, Exempt: s.IsExempt,
		}})
	}
	return out
}

func rates(r offences.Rates) wire.Rates {
	return wire.Rates{Allowed: r.Allowed, Limited: r.Limited, Challenged: r.Challenged, Blocked: r.Blocked}
}
