// Package policies is the page of a policy and its editor.
package policies

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/admin/profiles"
	"github.com/stint-dev/stint/internal/adminui/chart"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/challenge"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/internal/rules"
)

const (
	newPolicyPath = "/new-policy"
)

func policyPath(name string) string { return "/policies/" + url.PathEscape(name) }

// Handler lists, edits and tries policies.
type Handler struct {
	*site.Site
	Policies  *admin.Policies
	Detection *admin.Detection // nil if offences are not counted
	Profiles  *profiles.Profiles
	Audit     *operations.Audit
	CanUndo   bool // changes can be undone
	IsShared  bool // several nodes share the logs
	// Challenges shows what refused visitors see.
	Challenges *challenge.Service
}

func (h *Handler) Routes() []httpserver.Route {
	presets := &presetHandler{h}
	return []httpserver.Route{
		h.InMenu(site.Enforce, 3, "Policies", h.Get("/policies", identity.Read, h.listPolicies)),
		h.Get(newPolicyPath, identity.Admin, h.showNewPolicy),
		h.Post(newPolicyPath, identity.Admin, h.saveNewPolicy),
		h.Post(newPolicyPath+"/draft", identity.Admin, h.showDraft),
		h.Post(form.TryNewPath, identity.Admin, h.tryDraft),
		h.Get(visitorPath, identity.Read, h.showVisitorPage),
		h.Get(listsPath, identity.Read, h.showLists),
		h.Get(presetsPath, identity.Read, presets.listPresets),
		h.Get(presetsPath+"/:name", identity.Read, presets.showPreset),
		h.Post(presetsPath+"/:name", identity.Admin, presets.applyPreset),
		h.Get("/policies/:name", identity.Read, h.showPolicy),
		h.Get("/policies/:name/usage", identity.Read, h.showUsage),
		h.Post("/policies/:name", identity.Admin, h.savePolicy),
		h.Post("/policies/:name/draft", identity.Admin, h.showDraft),
		h.Post(form.TryPolicyPath, identity.Admin, h.tryDraft),
		h.Post("/policies/:name/return", identity.Admin, h.returnToVersion),
		h.Post("/policies/:name/promote", identity.Admin, h.promote),
		h.Post("/policies/:name/discard", identity.Admin, h.discard),
		h.Post("/policies/:name/rename", identity.Admin, h.rename),
		h.Post("/policies/:name/delete", identity.Admin, h.deletePolicy),
	}
}

type policiesPage struct {
	site.Frame
	List     *site.List
	Policies []policyRow
	Counted  bool
}

// policyOrders are the orders of the list, as their columns show them.
var policyOrders = []site.Order{
	{Value: string(rules.ByName)}, {Value: string(rules.ByMode)}, {Value: string(rules.ByVersion), Descending: true},
	{Value: string(rules.ByUpdated), Descending: true},
}

type policyRow struct {
	*rules.Policy
	Refused int64 // in the last hour
	// WouldRefuse is what it would have refused in the last hour outside shadow mode.
	WouldRefuse int64
	Sparkline   *chart.Sparkline // of both, nil if it is not counted or not requested
	Warnings    int
	Counts      string // how it counts, "" by default
	Current     bool
}

var policiesToasts = map[string]string{
	"deleted": "The policy is deleted. Its versions stay in the audit.", "applied": "The preset is applied.",
}

func (h *Handler) listPolicies(c *httpserver.Call) error {
	ctx := c.Context()
	page := policiesPage{Frame: h.NewFrame(c, "Policies", "/policies"), Counted: h.Detection != nil}
	var err error
	if page.List, err = site.ReadList(c, "/policies", policyOrders); err != nil {
		return err
	}
	var found paging.Page[*rules.Policy]
	err = page.List.Fill(func(cursor string) (int, int, string, error) {
		found, err = h.findPolicies(ctx, &page, cursor)
		return len(found.Items), found.Total, found.Next, err
	})
	if err != nil {
		return err
	}
	if page.Policies, err = h.policyRows(ctx, &page.Frame, found.Items, ""); err != nil {
		return err
	}
	err = h.addSparklines(ctx, page.Policies)
	page.Counted = page.Counted && err == nil && page.Outage == nil
	if err = h.Tolerate(&page.Frame, err); err != nil {
		return err
	}
	page.Toast = site.DoneToast(c, policiesToasts)
	return h.Render(c, http.StatusOK, "policies", page)
}

// addSparklines draws the refusals of each policy in the last hour.
func (h *Handler) addSparklines(ctx context.Context, rows []policyRow) error {
	if h.Detection == nil {
		return nil
	}
	const step = time.Hour / chart.SparklinePoints
	to := h.Now().UTC()
	from := to.Add(-time.Hour).Truncate(step)
	for i := range rows {
		traffic, err := h.Detection.TrafficCounts(ctx, rows[i].ID, from, to, step)
		if err != nil {
			return err
		}
		trend := make([]int64, chart.SparklinePoints+1) // the first and the last minutes are incomplete
		for _, p := range traffic.Points {
			at := min(max(0, int(p.At.Sub(from)/step)), chart.SparklinePoints)
			trend[at] += p.Limited + p.ShadowLimited
		}
		rows[i].Sparkline = chart.DrawSparkline(trend, format.TimeRange{From: from, To: from.Add(time.Duration(len(trend)) * step)}, time.Time{})
	}
	return nil
}

// findPolicies returns the policies of a page of the list. During an outage of the database they
// are the first of those in memory, by name.
func (h *Handler) findPolicies(ctx context.Context, page *policiesPage, cursor string) (paging.Page[*rules.Policy], error) {
	f := rules.PolicyFilter{Search: page.List.Search(), Order: rules.PolicyOrder(page.List.Order()), Cursor: cursor, Limit: site.RowsPerPage}
	found, err := h.Policies.FindPolicies(ctx, f)
	if err == nil || h.Tolerate(&page.Frame, err) != nil {
		return found, err
	}
	page.List.FromMemory = true
	delete(page.List.Query, "order")
	matching := slices.DeleteFunc(h.inMemory(), func(p *rules.Policy) bool { return !f.Matches(p) })
	return paging.Page[*rules.Policy]{Items: matching[:min(len(matching), site.RowsPerPage)], Total: len(matching)}, nil
}

// allPolicies returns all policies by name. During an outage of the database they are those in
// memory.
func (h *Handler) allPolicies(ctx context.Context, f *site.Frame) ([]*rules.Policy, error) {
	all, err := h.Policies.Policies(ctx)
	if err == nil || h.Tolerate(f, err) != nil {
		return all, err
	}
	return h.inMemory(), nil
}

func (h *Handler) inMemory() []*rules.Policy {
	return slices.SortedFunc(slices.Values(h.Catalog.Selector().Policies()), func(a, b *rules.Policy) int { return strings.Compare(a.Name, b.Name) })
}

// policyRows returns the rows of policies, without counts during an outage of the database.
func (h *Handler) policyRows(ctx context.Context, f *site.Frame, all []*rules.Policy, current string) ([]policyRow, error) {
	refused, wouldRefuse := map[int64]int64{}, map[int64]int64{}
	if h.Detection != nil {
		report, err := h.Detection.Rules(ctx, h.Now().Add(-time.Hour), h.Now())
		if err = h.Tolerate(f, err); err != nil {
			return nil, err
		}
		for _, row := range report {
			if row.Kind != offences.Blocked {
				refused[row.Policy] += row.Refused()
				wouldRefuse[row.Policy] += row.WouldRefuse()
			}
		}
	}
	rows := make([]policyRow, len(all))
	for i, p := range all {
		rows[i] = policyRow{Policy: p, Refused: refused[p.ID], WouldRefuse: wouldRefuse[p.ID], Warnings: len(p.Warnings()) + len(p.AlsoWarnings()), Current: p.Name == current}
		if p.Algorithm != algorithms.TimestampLog {
			rows[i].Counts = p.DescribeCounting()
		}
	}
	return rows, nil
}
