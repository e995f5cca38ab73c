package api

import (
	"context"
	"encoding/csv"
	"io"
	"net/http"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
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
		onAdmin(get, wire.PathOffenders, identity.Read, h.listOffenders, opListOffenders),
		onAdmin(get, wire.PathOffenders+"/export", identity.Read, h.exportOffenders, opExportOffenders),
		onAdmin(get, wire.PathOffenders+"/origins", identity.Read, h.listOrigins, opListOrigins),
		onAdmin(get, wire.PathOffenders+"/timeline", identity.Read, h.keyTimeline, opKeyTimeline),
		onAdmin(get, wire.PathOffences+"/:id", identity.Read, h.getOffence, opGetOffence),
		onAdmin(get, wire.PathPolicies+"/:name/usage", identity.Read, h.getPolicyUsage, opPolicyUsage),
		onAdmin(get, wire.PathAttack, identity.Read, h.getAttack, opGetAttack),
		onAdmin(get, wire.PathAttacks, identity.Read, h.listAttacks, opListAttacks),
	}
}

var (
	offenderQuery = append([]openapi.Param{
		policyParam,
		{Name: "pattern", Doc: "Only keys that this pattern covers."},
		{Name: "source", Doc: "Only keys that were refused in checks from this source."},
		{Name: "search", Doc: "Only keys that contain this text, case-insensitive."},
		{Name: "rule", Doc: "Only offences by this rule or block."},
		{Name: "not_rule", Doc: "No offences by this rule or block."},
		{Name: "min_offences", Doc: "Only keys with at least this many offences.", Integer: true},
		{Name: "shadow", Doc: "true for what shadow policies would have refused.", Boolean: true},
		{Name: "state", Doc: "Only keys that are open (neither blocked nor exempt), blocked or exempt now, of the first 20,000 in the order.",
			Enum: []string{"open", "blocked", "exempt"}},
		{Name: "sort", Doc: "The order; most offences first if omitted.", Enum: []string{"offences", "last", "first", "key"}},
	}, timeRangeQuery...)
	opListOffenders = &openapi.Operation{
		ID: "listOffenders", Tag: "offenders", Summary: "List the offenders: how often each was refused, and its state now.",
		Query: append([]openapi.Param{cursorParam, limitParam,
			{Name: "points", Doc: "Include the offences of each of this many parts of the time range, 1 to 120.", Integer: true}}, offenderQuery...),
		Answers: ok("One page of the report.", wire.OffenderReport{}),
	}
	opExportOffenders = &openapi.Operation{
		ID: "exportOffenders", Tag: "offenders", Summary: "Export all offenders as a file.",
		Query:   append([]openapi.Param{{Name: "format", Doc: "json if omitted.", Enum: []string{"json", "csv"}}}, offenderQuery...),
		Answers: []openapi.Answer{{Status: http.StatusOK, Doc: "Every row.", Types: []string{"application/json", "text/csv"}, Headers: file}},
	}
	opListOrigins = &openapi.Operation{
		ID: "listOrigins", Tag: "offenders", Summary: "List where the offenders come from: their offences by autonomous system or country.",
		Query:   append([]openapi.Param{{Name: "by", Doc: "asn if omitted.", Enum: []string{admin.ByASN, admin.ByCountry}}}, offenderQuery...),
		Answers: ok("The origins with most offences first.", wire.OriginReport{}),
	}
	opKeyTimeline = &openapi.Operation{
		ID: "keyTimeline", Tag: "offenders", Summary: "Show what one key did over a time range.",
		Query: append([]openapi.Param{
			{Name: "key", Doc: "The key, for example ip:203.0.113.7.", Required: true},
			{Name: "points", Doc: "How many parts the time range is divided into, 1 to 1440; 60 if omitted.", Integer: true},
		}, timeRangeQuery...),
		Answers: ok("Its offences over time and what its escalation did.", wire.Timeline{}),
	}
	opGetOffence = &openapi.Operation{
		ID: "getOffence", Tag: "offenders", Summary: "Explain a refusal by the id that its answer carried.",
		Answers: ok("The explanation in one sentence, then in detail.", wire.OffenceRecord{}),
	}
	opGetAttack = &openapi.Operation{
		ID: "getAttack", Tag: "offenders", Summary: "Show whether there is an attack now, since when, and from where.",
		Answers: ok("The rates of now and of the baseline, and the source of an attack.", wire.Attack{}),
	}
	opListAttacks = &openapi.Operation{
		ID: "listAttacks", Tag: "offenders", Summary: "List the attacks that were announced, with their course.",
		Query:   []openapi.Param{cursorParam, limitParam},
		Answers: ok("The attacks, the newest first.", wire.Page[wire.AnnouncedAttack]{}),
	}
)

var offenderParams = append([]string{
	"policy", "pattern", "source", "search", "rule", "not_rule", "min_offences", "shadow", "state", "sort",
}, timeRangeParams...)

func (h *offenderHandler) offenderQuery(q *httpserver.Query) (offences.Query, error) {
	from, to := h.timeRange(q)
	o := offences.Query{
		From: from, To: to, Source: q.Line("source"), Search: q.Line("search"),
		Rule: q.Line("rule"), NotRule: q.Line("not_rule"), MinOffences: int64(q.Number("min_offences", 1, 1_000_000_000)),
		Shadow: q.OneOf("shadow", "true", "false") == "true",
		State:  offences.Triage(q.OneOf("state", string(offences.TriageOpen), string(offences.TriageBlocked), string(offences.TriageExempt))),
		Sort:   offences.Sort(q.OneOf("sort", string(offences.ByOffences), string(offences.ByLast), string(offences.ByFirst), string(offences.ByKey))),
	}
	if q.Err() != nil {
		return o, q.Err()
	}
	var err error
	if o.Policy, err = h.policyID(q); err != nil {
		return o, err
	}
	if q.Given("pattern") {
		o.Pattern, err = h.pattern("pattern", q.Raw("pattern"))
	}
	return o, err
}

func (h *offenderHandler) listOffenders(c *httpserver.Call) error {
	q := c.ParseQuery(append([]string{"cursor", "limit", "points"}, offenderParams...)...)
	o, err := h.offenderQuery(q)
	if err != nil {
		return err
	}
	o.Cursor, o.Limit, o.Points = q.Line("cursor"), q.Limit(), q.Number("points", 1, 120)
	if q.Err() != nil {
		return q.Err()
	}
	report, err := h.detection.Offenders(c.Context(), o)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, h.wireReport(report))
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

func (h *offenderHandler) exportOffenders(c *httpserver.Call) error {
	q := c.ParseQuery(append([]string{"format"}, offenderParams...)...)
	format := q.OneOf("format", "json", "csv")
	o, err := h.offenderQuery(q)
	if err != nil {
		return err
	}
	if format == "csv" {
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

func (h *offenderHandler) listOrigins(c *httpserver.Call) error {
	q := c.ParseQuery(append([]string{"by"}, offenderParams...)...)
	o, err := h.offenderQuery(q)
	if err != nil {
		return err
	}
	r, err := h.detection.Origins(c.Context(), o, q.Raw("by"))
	if err != nil {
		return err
	}
	out := wire.OriginReport{From: wire.At(r.From), To: wire.At(r.To), Items: []wire.OriginOffences{}, Total: r.Total, Keys: r.Keys, Offences: r.Offences}
	for _, row := range r.Rows {
		out.Items = append(out.Items, wire.OriginOffences{
			Pattern: wire.NullString(row.Pattern.String()), Name: h.origins.NameOf(row.ASN), Keys: row.Keys, Offences: row.Offences, Ratio: row.Ratio, Blocked: row.IsBlocked,
		})
	}
	return c.SendJSON(http.StatusOK, out)
}

func (h *offenderHandler) keyTimeline(c *httpserver.Call) error {
	q := c.ParseQuery(append([]string{"key", "points"}, timeRangeParams...)...)
	from, to := h.timeRange(q)
	points := q.Number("points", 1, 1440)
	if q.Err() != nil {
		return q.Err()
	}
	if points == 0 {
		points = 60
	}
	key, err := h.key(q.Raw("key"))
	if err != nil {
		return err
	}
	t, err := h.detection.Timeline(c.Context(), key, from, to, points)
	if err != nil {
		return err
	}
	out := wire.Timeline{Key: t.Key, From: wire.At(t.From), To: wire.At(t.To), StepMS: t.Step.Milliseconds(), Allowed: t.Allowed,
		Points: make([]wire.TimelinePoint, 0, len(t.Points)), Events: make([]wire.EscalationEvent, 0, len(t.Events))}
	for _, p := range t.Points {
		out.Points = append(out.Points, wire.TimelinePoint{At: wire.At(p.At), Limited: p.Limited, Blocked: p.Blocked, Shadow: p.Shadow})
	}
	for _, e := range t.Events {
		out.Events = append(out.Events, fromEscalationEvent(e))
	}
	return c.SendJSON(http.StatusOK, out)
}

func (h *offenderHandler) getOffence(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	e, err := h.detection.ExplainRefusal(c.Context(), id)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, wire.OffenceRecord{
		ID: e.ID, Minute: wire.At(e.Minute), Found: string(e.Found), Explanation: e.Text, Key: wire.NullString(e.Key),
		Policy: wire.NullString(e.Policy), Offences: fromOffences(e.Offences), Escalation: fromEscalationStatus(e.Escalation), Other: fromOffences(e.Other),
	})
}

func (h *offenderHandler) getAttack(c *httpserver.Call) error {
	if q := c.ParseQuery(); q.Err() != nil {
		return q.Err()
	}
	a, err := h.detection.Attack(c.Context())
	if err != nil {
		return err
	}
	out := wire.Attack{At: wire.At(h.now()), Active: a.IsActive(), Now: rates(a.Now)}
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
	return c.SendJSON(http.StatusOK, out)
}

func (h *offenderHandler) listAttacks(c *httpserver.Call) error {
	q := c.ParseQuery("cursor", "limit")
	cursor, limit := q.Raw("cursor"), q.Limit()
	if q.Err() != nil {
		return q.Err()
	}
	page, next, err := h.detection.FindAttacks(c.Context(), cursor, limit)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, routes.CursorPage(page, next, fromAttack))
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
	return wire.Rates{Allowed: r.Allowed, Limited: r.Limited, Blocked: r.Blocked}
}
