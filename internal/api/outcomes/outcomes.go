// Package outcomes is the part of the REST API that receives the outcomes of requests, on
// the listener for checks.
package outcomes

import (
	"context"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stint-dev/stint/internal/answers"
	"github.com/stint-dev/stint/internal/api/checkjson"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/proxies"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// Reporter counts reports. *gate.Gate implements it.
type Reporter interface {
	Report(ctx context.Context, reports []gate.Report, answers []gate.Reported) error
}

// View is the node's copy of the settings for parsing keys.
type View interface {
	Loaded() bool
	Parser() keys.Parser
}

// handler receives reports.
type handler struct {
	gate  Reporter
	view  View
	sites *answers.Sites // nil if nothing is learned
	now   func() time.Time
}

// Routes returns the routes that receive reports. sites learns from those that say a status; nil for none.
func Routes(g Reporter, v View, sites *answers.Sites, now func() time.Time) []openapi.Route {
	h := &handler{g, v, sites, now}
	return []openapi.Route{
		route(wire.PathReport, h.report, opReport),
		route(wire.PathReportBatch, h.reportBatch, opReportBatch),
	}
}

func route(path string, handle httpserver.Handler, o *openapi.Operation) openapi.Route {
	r := routes.OnChecks(http.MethodPost, path, identity.Check, handle, o)
	r.Door = "report"
	return r
}

var (
	opReport = &openapi.Operation{
		ID: "reportOutcome", Tag: wire.TagChecks, Summary: "Report the outcome of a request, for the policies with that outcome.",
		Doc: "A report charges the policies whose outcome it names, whether or not the request was checked before, and is never refused because " +
			"a limit is reached: it charges what fits. It counts from when it comes. A report that no policy counts is accepted, and the answer says why. " +
			"A report with a status in place of an outcome is counted for each outcome that the answer means. The attributes of the request and the values of meta, which clients choose, are cut where they are too long and never refused.",
		Body: wire.OutcomeReport{}, Answers: routes.OK("What each policy did with it.", wire.ReportedOutcome{}),
	}
	opReportBatch = &openapi.Operation{
		ID: "reportOutcomes", Tag: wire.TagChecks, Summary: "Report up to 1,000 outcomes in order.",
		Body: wire.OutcomeBatch{}, Answers: routes.OK("The answers in the order of the reports, with a problem in place of each invalid report.", wire.OutcomeBatchAnswer{}),
	}
)

// maxReport is the largest body of one report, in bytes.
const maxReport = 64 << 10

func (h *handler) report(c *httpserver.Call) error {
	body, err := readBody(c, maxReport)
	if err != nil {
		return err
	}
	r, err := h.decode(body)
	if err != nil {
		return err
	}
	r.Meta = c.MetaWithTrace(r.Meta)
	answer, err := h.count(c, []report{r})
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, answer[0])
}

// report is a report that was read: of the outcome in it, or of a status, with the outcomes that it means.
type report struct {
	gate.Report
	outcomes []string // nil for that of Report
}

// all returns a report for each outcome.
func (r *report) all() []gate.Report {
	if r.outcomes == nil {
		return []gate.Report{r.Report}
	}
	var all []gate.Report
	for _, outcome := range r.outcomes {
		one := r.Report
		one.Outcome = outcome
		all = append(all, one)
	}
	return all
}

// count counts reports, and returns the answer to each. They are counted even if the client disconnects,
// as checks are.
func (h *handler) count(c *httpserver.Call, reports []report) ([]*wire.ReportedOutcome, error) {
	var each []gate.Report
	for i := range reports {
		each = append(each, reports[i].all()...)
	}
	reported := make([]gate.Reported, len(each))
	if err := h.gate.Report(c.DecisionContext(), each, reported); err != nil {
		return nil, err
	}
	out := make([]*wire.ReportedOutcome, len(reports))
	for i := range reports {
		of := reported[:len(reports[i].all())]
		reported = reported[len(of):]
		out[i] = fromAll(&reports[i], of)
	}
	return out, nil
}

// fromAll returns the answer to a report, of what came of each of its outcomes.
func fromAll(r *report, of []gate.Reported) *wire.ReportedOutcome {
	if r.outcomes == nil {
		return fromReported(&of[0])
	}
	out := &wire.ReportedOutcome{Key: r.Key.String(), Outcomes: r.outcomes, Policies: []wire.ReportedPolicy{}, Note: "Not counted: the answer has no outcome."}
	counted := false
	for i := range of {
		one := fromReported(&of[i])
		for j := range one.Policies {
			one.Policies[j].Outcome = one.Outcome
		}
		out.Policies = append(out.Policies, one.Policies...)
		if counted = counted || one.Note == ""; counted {
			out.Note = ""
		} else {
			out.Note = one.Note
		}
		if one.Degraded {
			out.Degraded, out.DegradedReason = true, one.DegradedReason
		}
	}
	return out
}

func readBody(c *httpserver.Call, limit int) ([]byte, error) {
	if err := c.RequireJSON(); err != nil {
		return nil, err
	}
	return c.ReadBody(limit)
}

func (h *handler) reportBatch(c *httpserver.Call) error {
	body, err := readBody(c, httpserver.MaxBatchBody)
	if err != nil {
		return err
	}
	var batch struct {
		Reports []jsontext.Value `json:"reports"`
	}
	if err := httpserver.UnmarshalStrict(body, &batch, anyText); err != nil {
		return err
	}
	if n := len(batch.Reports); n == 0 || n > wire.MaxBatch {
		return fault.Field("reports", "has %d reports; 1 to %d are allowed", n, wire.MaxBatch)
	}
	answer := wire.OutcomeBatchAnswer{Answers: make([]wire.OutcomeBatchItem, len(batch.Reports))}
	var reports []report
	var places []int // index in the batch of each report
	for i, text := range batch.Reports {
		r, err := h.decode(text)
		if err != nil {
			answer.Answers[i].Problem = httpserver.ProblemOf(err)
			continue
		}
		r.Meta = c.MetaWithTrace(r.Meta)
		reports, places = append(reports, r), append(places, i)
	}
	counted, err := h.count(c, reports)
	if err != nil {
		return err
	}
	for i := range counted {
		answer.Answers[places[i]].Answer = counted[i]
	}
	return c.SendJSON(http.StatusOK, answer)
}

// anyText reads invalid UTF-8 as U+FFFD, as decoders of most languages do.
var anyText = jsontext.AllowInvalidUTF8(true)

// decode reads one report. It is strict except for texts that clients choose: it cuts those
// that are too long or have control characters. Otherwise a client could keep its failures from
// being counted. The error is a *fault.Error.
func (h *handler) decode(body []byte) (report, error) {
	var in wire.OutcomeReport
	if err := httpserver.UnmarshalStrict(body, &in, anyText); err != nil {
		return report{}, err
	}
	switch isOutcome := in.Outcome != "" || in.Status == 0; {
	case isOutcome && in.Status != 0:
		return report{}, fault.Field("status", "is not possible beside an outcome: a report says one of the two")
	case !isOutcome && (in.Status < 100 || in.Status > 599):
		return report{}, fault.Field("status", "must be from 100 to 599")
	case isOutcome:
		if err := conditions.CheckOutcome(in.Outcome); err != nil {
			return report{}, fault.Field("outcome", "%s", err)
		}
	}
	if in.ID != "" {
		if err := checkjson.CheckID("id", in.ID); err != nil {
			return report{}, err
		}
	}
	if len(in.Meta) > wire.MaxMeta {
		return report{}, fault.Field("meta", "has more than %d entries", wire.MaxMeta)
	}
	if err := checkjson.CheckValues(in.Values); err != nil {
		return report{}, err
	}
	request, err := checkjson.RequestOf(&in.Request, nil)
	if err != nil {
		return report{}, err
	}
	checkjson.CutMeta(in.Meta)
	check := checkjson.Check{Key: in.Key, Cost: 1, Source: in.Source, Meta: in.Meta}
	checked, err := check.GateCheck(h.view.Parser(), wire.DetailNone)
	if err != nil {
		return report{}, err
	}
	r := report{Report: gate.Report{
		Key: checked.Key, Outcome: in.Outcome, Request: request, Values: in.Values, At: in.At.Time, Detail: true,
		Source: in.Source, Meta: in.Meta, ID: in.ID,
	}}
	if in.Status != 0 {
		r.outcomes = append([]string{}, h.sites.Learn(conditions.NormalizeHost(in.Request.Host), answers.Answer{
			Key: checked.Key, Path: in.Request.Path, Method: in.Request.Method, Status: in.Status, Time: h.now().UnixMilli(),
		})...)
	}
	return r, nil
}

func fromReported(r *gate.Reported) *wire.ReportedOutcome {
	out := &wire.ReportedOutcome{
		Key: r.Report.Key.String(), Outcome: r.Report.Outcome, Policies: make([]wire.ReportedPolicy, len(r.Policies)),
		Note: noteOf(r), Degraded: r.Degraded != "", DegradedReason: r.Degraded,
	}
	for i := range r.Policies {
		p := &r.Policies[i]
		derived := ""
		if p.Derived != nil {
			derived = p.Derived.String()
		}
		out.Policies[i] = wire.ReportedPolicy{
			DerivedKey: derived,
			Policy:     p.Policy.Name, Mode: string(p.Policy.Mode), Result: string(p.Result), ID: wire.NullString(p.ID.String()),
			Refuses: p.IsFull(), RetryAt: wire.At(retryAt(p)), Rules: checkjson.RuleStates(p.Policy, p.States),
		}
	}
	return out
}

// retryAt returns when p allows checks again, zero for now and for never.
func retryAt(p *gate.PolicyReport) time.Time {
	if !p.IsFull() {
		return time.Time{}
	}
	wait := time.Duration(0)
	for _, s := range p.States {
		wait = max(wait, time.Duration(s.RetryAfterMS)*time.Millisecond)
	}
	return p.At.Add(wait)
}

// noteOf returns why no policy counted a report, "" if one did.
func noteOf(r *gate.Reported) string {
	switch {
	case r.Exemption != nil:
		return "Not counted: the key is exempt by " + escape.Log(r.Exemption.Pattern.String()) + "."
	case r.Block != nil:
		return "Not counted: the key is blocked by " + r.Block.ID + ", so that the request was refused and not answered by the site."
	case r.Crawler != "":
		return "Not counted: the key is a verified crawler of " + r.Crawler + ", whose missing pages do not count."
	case r.IsLate:
		return "Not counted: it happened more than " + rules.FormatDuration(gate.MaxReportAge) + " ago, and reports count from when they come."
	case len(r.Policies) > 0:
		return ""
	case r.IsCounted && r.IsShared:
		return "Not counted. " + proxies.AboutShared(r.Report.Key)
	case r.Unsaid != "":
		return "Not counted: the policy counts different values of " + r.Unsaid + ", and the report has none."
	case r.IsCounted:
		return "Not counted: no policy that counts " + r.Report.Outcome + " applies to this key and request."
	}
	return "Not counted: no policy counts " + r.Report.Outcome + "."
}
