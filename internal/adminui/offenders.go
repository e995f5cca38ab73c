package adminui

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/adminui/chart"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/rules"
)

const offendersPage = 50

// offendersPageData is the report of offenders and their states.
type offendersPageData struct {
	site.MonitorPage
	Report  *offences.OffenderReport
	Rows    []offenderRow
	First   int // number of the first row shown, from 1
	Next    string
	Filters []filterChip
	Of      int64 // number of keys without the filters
	Columns []reportColumn
	// HasOrigins means that there are files with origins.
	HasOrigins bool
	Pauses     []offences.EscalationPause
	// FieldErrors are those of the filter form. With one, no offenders are read.
	FieldErrors form.FieldErrors
}

// Last returns the number of the last row shown.
func (p *offendersPageData) Last() int { return p.First + len(p.Rows) - 1 }

// Export returns the URL of the whole report as CSV.
func (p *offendersPageData) Export() string {
	values := url.Values{"format": {"csv"}}
	for name, all := range p.Query {
		values[name] = all
	}
	for _, own := range []string{"cursor", "at", "done", "ids", "columns"} {
		values.Del(own)
	}
	values.Set("from", p.Range.From.Format(time.RFC3339))
	values.Set("to", p.Range.To.Format(time.RFC3339))
	return "/v1/offenders/export?" + values.Encode()
}

// Sorted returns the sort order of the report.
func (p *offendersPageData) Sorted() string {
	if sort := p.Query.Get("sort"); sort != "" {
		return sort
	}
	return string(offences.ByOffences)
}

// filterChip is one active filter, and the address without it.
type filterChip struct {
	Name, Value string
	Key         bool // Value is a key or pattern
	Without     string
}

// offenderRow is one row of the report.
type offenderRow struct {
	offences.Offender
	Sparkline *chart.Sparkline
	State     stateView
	From      string // origin of the address, "" if it is unknown
	// Rule is what refused most, for people. RuleParam is its value as a filter, "" if it is
	// not a rule.
	Rule, RuleParam string
	KindParam       string // the pattern of all keys of its kind, "" for none
	PolicyName      string
}

// RatioText formats the refused ratio.
func (r offenderRow) RatioText() string { return phrase.Ratio(r.Offences, r.Offences+r.Allowed) }

// Max returns the upper bound of the key's offences, given that some lost their key.
func (r offenderRow) Max() int64 { return r.Offences + r.Overcount }

// stateView says whether a key is already blocked or exempt, and if not, what will happen
// automatically.
type stateView struct {
	Kind string // blocked, exempt, shadow, or "" for neither
	Text string
	// Since follows Text; it is empty without ISO.
	Since format.Moment
	// BlockID is the id of the block of exactly this key that can be ended here.
	BlockID string
	// By is the pattern of a block of more than this key, for a title; "" for none.
	By string
}

// offenderRows returns the rows of a report.
func offenderRows(s *site.Site, r *offences.OffenderReport, span format.TimeRange) []offenderRow {
	rows := make([]offenderRow, len(r.Rows))
	for i := range r.Rows {
		row := &r.Rows[i]
		blocked := time.Time{}
		if row.Block != nil && row.Exemption == nil {
			blocked = row.Block.Created.Time()
		}
		rows[i] = offenderRow{Offender: *row, Sparkline: chart.DrawSparkline(row.Trend, span, blocked), State: stateOf(row, s.PolicyName(row.Policy), s.Now()), PolicyName: s.PolicyName(row.Policy)}
		rows[i].Rule = format.RuleText(row.RefusedBy)
		if row.Kind == offences.Blocked {
			rows[i].Rule = "Blocked"
		} else {
			rows[i].RuleParam = row.RefusedBy
		}
		if kind := format.KindPattern.FindString(row.Key); kind != "" {
			rows[i].KindParam = kind + "*"
		}
	}
	return rows
}

// stateOf returns the state of an offender. policy is the policy that refused most: the status
// of the escalation of another one is shown with its name, once it has counted something.
func stateOf(r *offences.Offender, policy string, now time.Time) stateView {
	switch l := r.Escalation; {
	case r.Exemption != nil:
		return stateView{Kind: "exempt", Text: "since", Since: format.Short(r.Exemption.Created.Time(), now)}
	case r.Block != nil:
		v := stateView{Kind: "blocked", Text: "permanent"}
		if !r.Block.Expires.IsZero() {
			v.Text = timeLeft(r.Block.Expires.Sub(now)) + " left"
		}
		if r.Block.Pattern.String() == site.PatternText(r.Key) {
			v.BlockID = r.Block.ID
		} else {
			v.By = format.VisibleText(r.Block.Pattern.String())
			v.Text += ", by " + blockedBy(r.Block.Pattern)
		}
		return v
	case len(r.BlockedScopes) > 0:
		verb := " is blocked"
		if len(r.BlockedScopes) > 1 {
			verb = " are blocked"
		}
		return stateView{Text: "Only " + strings.Join(r.BlockedScopes, " and ") + verb}
	case r.Kind == offences.Shadow:
		return stateView{Kind: "shadow", Text: "not refused"}
	case l == nil, l.Policy != policy && l.Level == 0 && l.Count == 0:
		return stateView{Text: "No automatic blocks"}
	case l.Paused:
		return stateView{Text: "Automatic blocks paused"}
	default:
		next := "Next " + phrase.Duration(l.Next) + ", level " + strconv.Itoa(min(l.Level+1, l.Levels)) + " of " + strconv.Itoa(l.Levels)
		if l.Policy != policy {
			next += " of " + l.Policy
		}
		return stateView{Text: next}
	}
}

// blockedBy formats a pattern that selects a key. For a network it is the prefix length, since
// the key shows the address.
func blockedBy(p keys.Pattern) string {
	if network, is := p.Network(); is {
		return "its /" + strconv.Itoa(network.Bits())
	}
	return format.VisibleText(p.String())
}

// timeLeft formats a wait, without seconds if it is long.
func timeLeft(d time.Duration) string {
	if d > 10*time.Minute {
		d = d.Truncate(time.Minute)
	}
	return phrase.Duration(d)
}

var offenderParams = []string{
	"search", "min_offences", "pattern", "rule", "not_rule", "policy", "source", "shadow", "state", "sort", "columns", "cursor", "at", "done", "ids",
}

// offendersHandler serves the report of offenders.
type offendersHandler struct {
	*site.Site
	detection *admin.Detection // nil if offences are not counted
	toasts    *toasts
	origins   *operations.Origins
}

func (h *offendersHandler) routes() []httpserver.Route {
	return []httpserver.Route{
		h.InMenu(site.Monitor, 4, "Offenders", h.Get("/offenders", identity.Read, h.showOffenders)),
		h.Post("/escalations/resume", identity.Operate, h.resumeEscalation),
	}
}

func (h *offendersHandler) showOffenders(c *httpserver.Call) error {
	if h.detection == nil {
		return admin.ErrNotCounted
	}
	w, err := h.NewMonitorPage(c, "Offenders", "/offenders", offenderParams...)
	if err != nil {
		return err
	}
	page := &offendersPageData{MonitorPage: w, First: 1}
	if chosen := c.Ctx.Context().QueryArgs().PeekMulti("column"); len(chosen) > 0 {
		return h.Redirect(c, page.With("columns", chosenColumns(chosen)))
	}
	page.Columns = columnsOf(page.Query.Get("columns"))
	q, err := offenderQuery(h.Site, &page.MonitorPage)
	if err != nil {
		return h.showInvalidFilter(c, page, err)
	}
	q.CountStates = true
	ctx := c.Context()
	if page.Toast, err = h.toasts.find(ctx, &page.MonitorPage); err != nil {
		return err
	}
	if page.Report, err = h.detection.Offenders(ctx, q); err != nil {
		return err
	}
	page.Rows = offenderRows(h.Site, page.Report, page.Range)
	for i := range page.Rows {
		page.Rows[i].From = h.origins.Known(page.Rows[i].Key).String()
	}
	page.HasOrigins = h.origins.IsOn()
	if page.Pauses, err = h.detection.EscalationPauses(ctx); err != nil {
		return err
	}
	if at, err := strconv.Atoi(page.Query.Get("at")); err == nil && at > 0 && q.Cursor != "" {
		page.First, page.Refresh = at, 0
	}
	if page.Report.Next != "" {
		page.Next = page.With("cursor", page.Report.Next, "at", strconv.Itoa(page.First+len(page.Rows)))
	}
	page.Filters = filterChips(&page.MonitorPage)
	if page.Of = page.Report.Keys; len(page.Filters) > 0 && len(page.Rows) == 0 {
		if page.Of, err = h.detection.CountOffenders(ctx, page.Range.From, page.Range.To); err != nil {
			return err
		}
	}
	return h.RenderLive(c, "offenders", page)
}

// showInvalidFilter shows the page without offenders if err concerns a field of the filter form
// that it can show, and returns any other error.
func (h *offendersHandler) showInvalidFilter(c *httpserver.Call, page *offendersPageData, err error) error {
	page.FieldErrors = form.FieldErrors{}
	for _, err := range []error{err, checkPolicy(h.Site, page.Query.Get("policy"))} {
		if err := page.FieldErrors.Add(err, "min_offences", "pattern", "rule", "policy", "source"); err != nil {
			return err
		}
	}
	page.Report, page.Refresh, page.HasOrigins = &offences.OffenderReport{}, 0, h.origins.IsOn()
	page.Filters = filterChips(&page.MonitorPage)
	return h.Render(c, http.StatusUnprocessableEntity, "offenders", page)
}

func offenderQuery(s *site.Site, w *site.MonitorPage) (offences.Query, error) {
	values := url.Values{}
	for name, all := range w.Query {
		values[name] = all
	}
	if err := checkRule(values.Get("rule")); err != nil {
		return offences.Query{}, err
	}
	q, err := admin.ParseOffenderFilter(s.Catalog, values)
	q.From, q.To, q.Cursor, q.Limit, q.Points = w.Range.From, w.Range.To, w.Query.Get("cursor"), offendersPage, chart.SparklinePoints
	return q, err
}

// checkPolicy returns an error of the field policy unless there is a policy with that name, or
// the name is empty.
func checkPolicy(s *site.Site, name string) error {
	if _, found := s.Catalog.Selector().ByName(name); !found && name != "" {
		return fault.NoSuch("policy", "there is no policy of that name")
	}
	return nil
}

// checkRule returns an error unless text may be what refused a request: people write "20 per
// minute" where they choose from no list.
func checkRule(text string) error {
	if _, err := rules.ParseRule(text); err != nil && text != "" && text != offences.Other && uuid.Validate(text) != nil {
		return fault.Field("rule", "must be a rule such as 20/min, or the id of a block")
	}
	return nil
}

// filterChips returns the filters in a page's address.
func filterChips(w *site.MonitorPage) []filterChip {
	var all []filterChip
	for _, f := range []struct {
		param, name string
		show        func(string) string
	}{
		{"search", "Key contains", nil}, {"min_offences", "Offences", func(v string) string { return v + " or more" }},
		{"pattern", "Key is", nil}, {"rule", "Rule is", format.RuleText}, {"not_rule", "Rule is not", format.RuleText},
		{"policy", "Policy is", nil}, {"source", "Client", nil}, {"shadow", "Only", func(string) string { return "what shadow policies would refuse" }},
	} {
		value := w.Query.Get(f.param)
		if value == "" {
			continue
		}
		if f.show != nil {
			value = f.show(value)
		}
		all = append(all, filterChip{Name: f.name, Value: value, Key: f.param == "pattern", Without: w.With(f.param, "")})
	}
	return all
}

// reportColumn is an optional column of the report. The key and its offences are always shown.
type reportColumn struct {
	Name, Label string
	Shown       bool
}

// reportColumns are the columns in the menu, and whether each is shown by default.
var reportColumns = []reportColumn{
	{"allowed", "Allowed", true}, {"refused", "Refused", true}, {"rule", "By rule", true}, {"policy", "Policy", false},
	{"first", "First", true}, {"last", "Last", true}, {"trend", "Trend", true}, {"state", "Status", true},
}

// noColumns is the value of the parameter for no columns.
const noColumns = "none"

// columnsOf returns the columns, with those shown that a parameter from chosenColumns names. It
// ignores unknown names.
func columnsOf(text string) []reportColumn {
	all := slices.Clone(reportColumns)
	if text == "" {
		return all
	}
	named := strings.Split(text, ",")
	for i := range all {
		all[i].Shown = slices.Contains(named, all[i].Name)
	}
	return all
}

// chosenColumns returns the selected columns of a form as one parameter, "" for the default.
func chosenColumns(chosen [][]byte) string {
	var names []string
	usual := true
	for _, c := range reportColumns {
		is := slices.ContainsFunc(chosen, func(name []byte) bool { return string(name) == c.Name })
		if is {
			names = append(names, c.Name)
		}
		usual = usual && is == c.Shown
	}
	switch {
	case usual:
		return ""
	case len(names) == 0:
		return noColumns
	}
	return strings.Join(names, ",")
}

// Shows reports whether a column is shown.
func (p *offendersPageData) Shows(name string) bool {
	return slices.ContainsFunc(p.Columns, func(c reportColumn) bool { return c.Name == name && c.Shown })
}

// resumeEscalation resumes an escalation that its safety limit has paused.
func (h *offendersHandler) resumeEscalation(c *httpserver.Call) error {
	values := form.Values(c)
	if h.detection == nil {
		return admin.ErrNotCounted
	}
	if err := h.detection.Resume(c.Context(), site.CallerOf(c), values.Get("policy")); err != nil {
		return err
	}
	return h.ReturnTo(c, values.Get("back"), "resumed", nil)
}
