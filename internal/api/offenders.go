package api

import (
	"context"
	"encoding/csv"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/offenders"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// Spans that reports may cover.
const (
	defaultSpan = time.Hour
	longestSpan = 5 * 366 * 24 * time.Hour
)

// spanParams name the span of a report: the last so long, or from and to.
var spanParams = []string{"last", "from", "to"}

// span reads a span, the last hour where none is named.
func (s *API) span(q *httpserver.Query) (from, to time.Time) {
	from, to = q.Time("from"), q.Time("to")
	now := s.Now()
	if to.IsZero() {
		to = now
	}
	switch {
	case q.Given("last") && (q.Given("from") || q.Given("to")):
		q.Fail("last", "stands beside from or to; send the one or the other")
	case q.Given("last"):
		last, err := rules.ParseDuration(q.Raw("last"))
		if err != nil {
			q.Fail("last", `must be a length of time, for example "15m" or "7d"`)
		}
		from = to.Add(-last)
	case from.IsZero():
		from = to.Add(-defaultSpan)
	}
	if q.Err() == nil && !from.Before(to) {
		q.Fail("to", "must lie after from")
	}
	if q.Err() == nil && to.Sub(from) > longestSpan {
		q.Fail("from", "lies more than five years before to")
	}
	return from, to
}

// policyID reads the name of a policy, 0 where it was not sent.
func (s *API) policyID(q *httpserver.Query) int64 {
	if !q.Given("policy") {
		return 0
	}
	p, found := s.Catalog.Selector().ByName(q.Raw("policy"))
	if !found {
		q.Fail("policy", "names no policy")
		return 0
	}
	return p.ID
}

var offenderParams = append([]string{
	"policy", "pattern", "source", "search", "rule", "not_rule", "least", "shadow", "sort",
}, spanParams...)

func (s *API) offenderQuery(q *httpserver.Query) (offences.Query, error) {
	from, to := s.span(q)
	o := offences.Query{
		From: from, To: to, Policy: s.policyID(q), Source: q.Line("source"), Search: q.Line("search"),
		Rule: q.Line("rule"), NotRule: q.Line("not_rule"), Least: int64(q.Number("least", 1, 1_000_000_000)),
		Shadow: q.OneOf("shadow", "true", "false") == "true",
		Sort:   offences.Sort(q.OneOf("sort", string(offences.ByOffences), string(offences.ByLast), string(offences.ByFirst), string(offences.ByKey))),
	}
	if q.Given("pattern") && q.Err() == nil {
		pattern, err := s.pattern("pattern", q.Raw("pattern"))
		if err != nil {
			return o, err
		}
		o.Pattern = pattern
	}
	return o, q.Err()
}

func (s *API) listOffenders(c *httpserver.Call) error {
	q := c.ParseQuery(append([]string{"cursor", "limit", "points"}, offenderParams...)...)
	o, err := s.offenderQuery(q)
	if err != nil {
		return err
	}
	o.Cursor, o.Limit, o.Points = q.Line("cursor"), q.Limit(), q.Number("points", 1, 120)
	if q.Err() != nil {
		return q.Err()
	}
	ctx := c.Context()
	report, err := s.Offenders.Report(ctx, o)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, s.wireReport(report))
}

func (s *API) wireReport(r *offenders.Report) wire.OffenderReport {
	out := wire.OffenderReport{
		From: wire.At(r.From), To: wire.At(r.To), Keys: r.Keys, Offences: r.Ranking.Offences, Other: r.Other,
		AllowedExact: r.AllowedExact, Untracked: r.Untracked,
		Page: wire.Page[wire.Offender]{Items: make([]wire.Offender, 0, len(r.Rows)), NextCursor: wire.NullString(r.Next)},
	}
	total := int(r.Keys)
	out.Total = &total
	now := s.Now()
	for i := range r.Rows {
		out.Items = append(out.Items, fromOffender(&r.Rows[i], s.policyName, now))
	}
	return out
}

// eachOffender goes through every page of a report.
func (s *API) eachOffender(ctx context.Context, o offences.Query, do func(wire.Offender) error) error {
	o.Limit = 1000
	for {
		report, err := s.Offenders.Report(ctx, o)
		if err != nil {
			return err
		}
		for _, row := range s.wireReport(report).Items {
			if err := do(row); err != nil {
				return err
			}
		}
		if report.Next == "" {
			return nil
		}
		o.Cursor = report.Next
	}
}

func (s *API) exportOffenders(c *httpserver.Call) error {
	q := c.ParseQuery(append([]string{"format"}, offenderParams...)...)
	format := q.OneOf("format", "json", "csv")
	o, err := s.offenderQuery(q)
	if err != nil {
		return err
	}
	if format == "csv" {
		return httpserver.Stream(c, "text/csv; charset=utf-8", "offenders.csv", func(ctx context.Context, w io.Writer) error {
			return s.writeOffendersCSV(ctx, w, o)
		})
	}
	return httpserver.Stream(c, "application/json", "offenders.json", func(ctx context.Context, w io.Writer) error {
		separator := "["
		err := s.eachOffender(ctx, o, func(row wire.Offender) error {
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

func (s *API) writeOffendersCSV(ctx context.Context, w io.Writer, o offences.Query) error {
	out := csv.NewWriter(w)
	if err := out.Write([]string{"key", "offences", "offences_at_most", "allowed", "share_refused", "policy", "decision", "decided_by", "first_at", "last_at", "blocked_until", "escalation_level"}); err != nil {
		return err
	}
	err := s.eachOffender(ctx, o, func(row wire.Offender) error {
		until, step := "", ""
		if row.Block != nil {
			if until = row.Block.ExpiresAt.String(); row.Block.ExpiresAt.IsZero() {
				until = "for good"
			}
		}
		if row.Escalation != nil {
			step = strconv.Itoa(row.Escalation.Level)
		}
		return out.Write([]string{
			escape.CSV(row.Key), strconv.FormatInt(row.Offences, 10), strconv.FormatInt(row.OffencesAtMost, 10),
			strconv.FormatInt(row.Allowed, 10), strconv.FormatFloat(row.ShareRefused, 'f', 4, 64),
			escape.CSV(string(row.Policy)), row.Decision, escape.CSV(row.DecidedBy), row.FirstAt.String(), row.LastAt.String(), until, step,
		})
	})
	if err != nil {
		return err
	}
	out.Flush()
	return out.Error()
}

func (s *API) keyTimeline(c *httpserver.Call) error {
	q := c.ParseQuery(append([]string{"key", "points"}, spanParams...)...)
	from, to := s.span(q)
	points := q.Number("points", 1, 1440)
	if q.Err() != nil {
		return q.Err()
	}
	if points == 0 {
		points = 60
	}
	key, err := s.key(q.Raw("key"))
	if err != nil {
		return err
	}
	ctx := c.Context()
	t, err := s.Offenders.Timeline(ctx, key, from, to, points)
	if err != nil {
		return err
	}
	out := wire.Timeline{Key: t.Key, From: wire.At(from), To: wire.At(to), Allowed: t.Allowed,
		Points: make([]wire.TimelinePoint, 0, len(t.Points)), Events: make([]wire.EscalationEvent, 0, len(t.Events))}
	for _, p := range t.Points {
		out.Points = append(out.Points, wire.TimelinePoint{At: wire.At(p.At), Limited: p.Limited, Blocked: p.Blocked, Shadow: p.Shadow})
	}
	for _, e := range t.Events {
		out.Events = append(out.Events, fromEscalationEvent(e))
	}
	return c.SendJSON(http.StatusOK, out)
}

func (s *API) getOffence(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	ctx := c.Context()
	e, err := s.Offenders.Offence(ctx, id)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, wire.OffenceRecord{
		ID: e.ID, Minute: wire.At(e.Minute), Found: string(e.Found), Sentence: e.Sentence, Key: wire.NullString(e.Key),
		Policy: wire.NullString(e.Policy), Offences: fromOffences(e.Offences), Escalation: fromEscalationStatus(e.Escalation), Other: fromOffences(e.Other),
	})
}
