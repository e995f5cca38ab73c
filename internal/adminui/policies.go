package adminui

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/api"
	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/offenders"
	"github.com/stint-dev/stint/internal/rules"
)

const (
	newPolicyPath = "/new-policy"
	tryNewPath    = newPolicyPath + "/try"
	tryPolicyPath = "/policies/:name/try"
)

func policyPath(name string) string { return "/policies/" + url.PathEscape(name) }

func (u *UI) policyRoutes() []api.Route {
	return []api.Route{
		u.get("/policies", identity.Read, u.listPolicies),
		u.get(newPolicyPath, identity.Admin, u.showNewPolicy),
		u.post(newPolicyPath, identity.Admin, u.saveNewPolicy),
		u.post(newPolicyPath+"/draft", identity.Admin, u.showDraft),
		u.post(tryNewPath, identity.Admin, u.tryDraft),
		u.get("/policies/:name", identity.Read, u.showPolicy),
		u.post("/policies/:name", identity.Admin, u.savePolicy),
		u.post("/policies/:name/draft", identity.Admin, u.showDraft),
		u.post(tryPolicyPath, identity.Admin, u.tryDraft),
		u.post("/policies/:name/return", identity.Admin, u.returnToVersion),
		u.post("/policies/:name/delete", identity.Admin, u.deletePolicy),
	}
}

type policiesPage struct {
	Frame
	Policies []policyRow
	Counted  bool
}

type policyRow struct {
	*rules.Policy
	Refused  int64  // in the last hour; by a shadow policy: what it would have
	Spark    *spark // of them, nil where they are not counted or not asked for
	Warnings int
	Counts   string // how it counts, "" by default
	Current  bool
}

func (u *UI) listPolicies(c *api.Call) error {
	ctx, cancel := c.StoreContext()
	defer cancel()
	page := policiesPage{Frame: u.frame(c, "Policies", "/policies"), Counted: u.Offenders != nil}
	var err error
	if page.Policies, err = u.policyRows(ctx, ""); err != nil {
		return err
	}
	if err = u.addSparks(ctx, page.Policies); err != nil {
		return err
	}
	if c.Query("done") == "deleted" {
		page.Toast = &Toast{Text: "The policy is deleted. The audit keeps what it said."}
	}
	return u.render(c, http.StatusOK, "policies", page)
}

// addSparks draws what each policy refused in the last hour.
func (u *UI) addSparks(ctx context.Context, rows []policyRow) error {
	if u.Offenders == nil {
		return nil
	}
	const step = time.Hour / sparkPoints
	to := u.Now().UTC()
	from := to.Add(-time.Hour).Truncate(step)
	for i := range rows {
		points, err := u.Offenders.Traffic(ctx, rows[i].ID, from, to, step)
		if err != nil {
			return err
		}
		trend := make([]int64, sparkPoints+1) // the first and the last minutes are cut
		for _, p := range points {
			at := min(max(0, int(p.At.Sub(from)/step)), sparkPoints)
			trend[at] += p.Limited
			if rows[i].Mode == rules.Shadow {
				trend[at] += p.ShadowLimited
			}
		}
		rows[i].Spark = drawSpark(trend, span{From: from, To: from.Add(time.Duration(len(trend)) * step)}, time.Time{})
	}
	return nil
}

func (u *UI) policyRows(ctx context.Context, current string) ([]policyRow, error) {
	all, err := u.Policies.Policies(ctx)
	if err != nil {
		return nil, err
	}
	refused := map[int64]int64{}
	if u.Offenders != nil {
		report, err := u.Offenders.RulesReport(ctx, u.Now().Add(-time.Hour), u.Now())
		if err != nil {
			return nil, err
		}
		for _, row := range report {
			if row.Kind != offenders.Blocked {
				refused[row.Policy] += row.Refused
			}
		}
	}
	rows := make([]policyRow, len(all))
	for i, p := range all {
		rows[i] = policyRow{Policy: p, Refused: refused[p.ID], Warnings: len(p.Warnings()), Current: p.Name == current}
		if p.Algorithm != algorithms.TimestampLog {
			rows[i].Counts = countsBy(p)
		}
	}
	return rows, nil
}

// policyPage is the editor.
type policyPage struct {
	Frame
	Base     string        // where its form goes
	Policies []policyRow   // beside it
	Policy   *rules.Policy // that decides now, nil for a new one
	Draft    *draft
	Meaning  *meaning // nil where the draft's rules cannot be read
	Changes  []difference
	Anew     string // what becomes of what the keys have used, "" where they keep it
	Versions []versionRow
	Compared *versionRow // whose differences to the version that decides are shown
	Try      *trial
	CanTrace bool
	Nodes    bool // several nodes share the logs
}

type versionRow struct {
	*rules.Policy
	Decides bool
	Changes []difference // from it to the version that decides
	Anew    string       // as in policyPage, where it is returned to
}

// Next is the number of the version that saving makes.
func (p *policyPage) Next() int64 {
	if p.Policy == nil {
		return 1
	}
	return p.Policy.Version + 1
}

// Changed reports whether the draft differs from what decides now.
func (p *policyPage) Changed() bool { return p.Policy == nil || len(p.Changes) > 0 || p.Meaning == nil }

// NoteIDs returns the places that a look at the draft refreshes.
func (p *policyPage) NoteIDs() string {
	ids := "#meaning,#changes,#escalation-note,#rules-note,#save-note,#algorithm-note,#burst-note"
	for i := range p.Draft.Rows {
		ids += ",#rule-note-" + strconv.Itoa(i)
	}
	for i := range p.Draft.Match {
		ids += ",#match-note-" + strconv.Itoa(i)
	}
	return ids
}

func (u *UI) showNewPolicy(c *api.Call) error {
	return u.renderPolicy(c, http.StatusOK, nil, newDraft(), nil)
}

func (u *UI) showPolicy(c *api.Call) error {
	p, err := u.policyOf(c)
	if err != nil {
		return err
	}
	return u.renderPolicy(c, http.StatusOK, p, draftOf(p), nil)
}

// policyOf returns the policy that the path names, nil for a new one.
func (u *UI) policyOf(c *api.Call) (*rules.Policy, error) {
	if c.Params("name") == "" {
		return nil, nil
	}
	name, err := param(c, "name")
	if err != nil {
		return nil, err
	}
	ctx, cancel := c.StoreContext()
	defer cancel()
	return u.Policies.FindPolicyByName(ctx, name)
}

// renderPolicy shows the editor over a draft, which it judges.
func (u *UI) renderPolicy(c *api.Call, status int, p *rules.Policy, d *draft, try *trial) error {
	ctx, cancel := c.StoreContext()
	defer cancel()
	page := &policyPage{
		Frame: u.frame(c, "New policy", "/policies"), Base: newPolicyPath, Policy: p, Draft: d, Try: try,
		CanTrace: u.Trace != nil, Nodes: u.DataDir == "",
	}
	if p != nil {
		page.Title, page.Base = p.Name, policyPath(p.Name)
	}
	wanted := d.policy(u.Catalog.Parser(), p)
	if c.Method() == http.MethodGet { // a name that nobody has typed yet is no mistake
		delete(d.Mistakes, "name")
	}
	if readable := d.readable(); readable != nil {
		page.Meaning = meaningOf(readable)
	}
	if p != nil && wanted != nil {
		page.Changes, page.Anew = differences(p, wanted), startsAnew(p, wanted)
	}
	var err error
	name := ""
	if p != nil {
		name = p.Name
		if err = u.addVersions(ctx, c, page); err != nil {
			return err
		}
	}
	if page.Policies, err = u.policyRows(ctx, name); err != nil {
		return err
	}
	page.Toast = policyToast(c, p)
	return u.render(c, status, "policy", page)
}

// readable returns the rules of a draft that was judged, and how it counts them,
// nil where these cannot be read; whatever else is wrong with it.
func (d *draft) readable() *rules.Policy {
	var texts []string
	for _, row := range d.Rows {
		if row.Mistake != "" {
			return nil
		}
		if row.Limit != "" {
			texts = append(texts, strings.ReplaceAll(row.Limit, ",", "")+"/"+row.Window)
		}
	}
	p := &rules.Policy{}
	a := algorithms.ByName(d.Algorithm.Name)
	if a == nil || !d.readAlgorithm(p) || a.Check(p.Options) != nil {
		return nil
	}
	var err error
	if p.Rules, err = rules.ParseStack(texts); err != nil {
		return nil
	}
	return p
}

func policyToast(c *api.Call, p *rules.Policy) *Toast {
	if p == nil || c.Method() != http.MethodGet {
		return nil
	}
	switch c.Query("done") {
	case "saved":
		return &Toast{Text: "Version " + number(p.Version) + " of " + p.Name + " decides now, on every node."}
	case "same":
		return &Toast{Text: "Nothing differs from version " + number(p.Version) + ", so no version was made."}
	}
	return nil
}

// mostVersions is how many versions the editor lists.
const mostVersions = 20

func (u *UI) addVersions(ctx context.Context, c *api.Call, page *policyPage) error {
	all, err := u.Policies.PolicyVersions(ctx, page.Policy.Name)
	if err != nil {
		return err
	}
	compare, _ := strconv.ParseInt(c.Query("compare"), 10, 64)
	for i, v := range all {
		row := versionRow{Policy: v, Decides: v.Version == page.Policy.Version}
		if v.Version == compare && !row.Decides {
			row.Changes, row.Anew = differences(v, page.Policy), startsAnew(page.Policy, v)
			page.Compared = &row
		}
		if i < mostVersions {
			page.Versions = append(page.Versions, row)
		}
	}
	return nil
}

// showDraft judges a draft and saves nothing.
func (u *UI) showDraft(c *api.Call) error {
	p, d, err := u.draftFrom(c)
	if err != nil {
		return err
	}
	return u.renderPolicy(c, http.StatusOK, p, d, nil)
}

func (u *UI) draftFrom(c *api.Call) (*rules.Policy, *draft, error) {
	values, err := form(c)
	if err != nil {
		return nil, nil, err
	}
	p, err := u.policyOf(c)
	if err != nil {
		return nil, nil, err
	}
	d, err := readDraft(values, p)
	if err != nil {
		return nil, nil, err
	}
	if p != nil {
		d.Name = p.Name
	}
	return p, d, nil
}

func (u *UI) saveNewPolicy(c *api.Call) error {
	_, d, err := u.draftFrom(c)
	if err != nil {
		return err
	}
	d.Expect = rules.ExpectNew
	return u.save(c, nil, d)
}

func (u *UI) savePolicy(c *api.Call) error {
	p, d, err := u.draftFrom(c)
	if err != nil {
		return err
	}
	return u.save(c, p, d)
}

// save puts a draft in the place of the version that it was made from. What
// was typed is never lost: mistakes and somebody else's version show it again.
func (u *UI) save(c *api.Call, p *rules.Policy, d *draft) error {
	wanted := d.policy(u.Catalog.Parser(), p)
	if wanted == nil {
		return u.renderPolicy(c, statusOfForm, p, d, nil)
	}
	ctx, cancel := c.StoreContext()
	defer cancel()
	values, err := form(c)
	if err != nil {
		return err
	}
	if strings.TrimSpace(values.Get("confirm")) != wanted.Name && d.askBroad(p, wanted) {
		return u.renderPolicy(c, statusOfForm, p, d, nil)
	}
	saved, err := u.Policies.PutPolicy(ctx, c.Actor(), wanted, d.Expect)
	switch {
	case fault.Is(err, fault.Outdated):
		return u.renderConflict(c, p, wanted, d)
	case fault.Is(err, fault.NeedVersion):
		d.Mistakes["name"] = "There is a policy of this name; choose another, or edit that one."
		return u.renderPolicy(c, statusOfForm, p, d, nil)
	case fault.Is(err, fault.Conflict):
		d.noteTaken(err)
		return u.renderPolicy(c, api.StatusOf(err), p, d, nil)
	case err != nil:
		return err
	}
	done := "saved"
	if p != nil && saved.Version == p.Version {
		done = "same"
	}
	return u.seeOther(c, policyPath(saved.Name)+"?done="+done)
}

// askBroad makes a draft ask for its name where it is broad, and reports whether
// it did. before is nil for a new policy.
func (d *draft) askBroad(before, wanted *rules.Policy) bool {
	why := blocklist.BroadPolicy(before, wanted)
	if why == "" {
		return false
	}
	d.Ask, d.Mistakes["confirm"] = wanted.Name, "Nothing was changed: "+why+". To go on, type "+wanted.Name+"."
	return true
}

// noteTaken puts a pattern that belongs to another policy beside its field.
func (d *draft) noteTaken(err error) {
	var mistake *fault.Error
	if !errors.As(err, &mistake) {
		return
	}
	n := 0
	for i := range d.Match {
		if d.Match[i].Text == "" {
			continue
		}
		if mistake.Field == "match["+strconv.Itoa(n)+"]" {
			d.Match[i].Mistake = mistake.Message
			return
		}
		n++
	}
	d.Mistakes["match"] = mistake.Message
}

// conflictPage shows two edits of one version side by side.
type conflictPage struct {
	Frame
	Base   string
	Policy *rules.Policy // what decides now: theirs
	From   int64         // the version that both were made from
	Theirs []difference
	Yours  []difference
	Anew   string  // as in policyPage, where yours takes the place of theirs
	Fields []Field // of yours, whole
}

// Next is the number of the version that saving yours makes.
func (p conflictPage) Next() int64 { return p.Policy.Version + 1 }

func (u *UI) renderConflict(c *api.Call, now, wanted *rules.Policy, d *draft) error {
	ctx, cancel := c.StoreContext()
	defer cancel()
	all, err := u.Policies.PolicyVersions(ctx, now.Name)
	if err != nil {
		return err
	}
	page := conflictPage{Frame: u.frame(c, "Changed meanwhile", "/policies"), Base: policyPath(now.Name), Policy: now, From: d.Expect}
	at := slices.IndexFunc(all, func(v *rules.Policy) bool { return v.Version == d.Expect })
	if at < 0 {
		return fault.Field("expect", "is not a version of this policy")
	}
	page.Theirs, page.Yours = differences(all[at], now), differences(all[at], wanted)
	page.Anew = startsAnew(now, wanted)
	values, err := form(c)
	if err != nil {
		return err
	}
	for _, name := range []string{"mode", "limit", "window", "match", "algorithm", "burst", "count_refused", "window_start", "variant", "on_failure", "escalation", "threshold", "offence_window", "duration", "factor", "max_duration", "decay_after"} {
		for _, value := range values[name] {
			page.Fields = append(page.Fields, Field{name, value})
		}
	}
	return u.render(c, http.StatusPreconditionFailed, "policy-conflict", page)
}

// returnToVersion puts an old version in the place of the one that decides.
func (u *UI) returnToVersion(c *api.Call) error {
	values, err := form(c)
	if err != nil {
		return err
	}
	name, err := param(c, "name")
	if err != nil {
		return err
	}
	wanted, err := strconv.ParseInt(values.Get("version"), 10, 64)
	if err != nil {
		return fault.Field("version", "is not a number")
	}
	expect, err := strconv.ParseInt(values.Get("expect"), 10, 64)
	if err != nil || expect < 1 {
		return fault.Field("expect", "is not a version that the page had")
	}
	ctx, cancel := c.StoreContext()
	defer cancel()
	all, err := u.Policies.PolicyVersions(ctx, name)
	if err != nil {
		return err
	}
	for _, v := range all {
		if v.Version != wanted {
			continue
		}
		now, err := u.Policies.FindPolicyByName(ctx, name)
		if err != nil {
			return err
		}
		if d := draftOf(v); d.askBroad(now, v) {
			d.Expect = expect
			return u.renderPolicy(c, statusOfForm, now, d, nil)
		}
		if _, err := u.Policies.PutPolicy(ctx, c.Actor(), v, expect); err != nil {
			return err
		}
		return u.seeOther(c, policyPath(name)+"?done=saved")
	}
	return fault.New(fault.NotFound, "The policy %s has no version %d.", name, wanted)
}

func (u *UI) deletePolicy(c *api.Call) error {
	values, err := form(c)
	if err != nil {
		return err
	}
	name, err := param(c, "name")
	if err != nil {
		return err
	}
	if values.Get("confirm") != name {
		return fault.New(fault.NeedConfirm, "Nothing was deleted. To delete the policy, type its name, %s.", name)
	}
	expect, err := strconv.ParseInt(values.Get("expect"), 10, 64)
	if err != nil || expect < 1 {
		return fault.Field("expect", "is not a version that the page had")
	}
	ctx, cancel := c.StoreContext()
	defer cancel()
	if err := u.Policies.DeletePolicy(ctx, c.Actor(), name, expect); err != nil {
		return err
	}
	return u.seeOther(c, "/policies?done=deleted")
}
