package policies

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/rules"
)

// policyPage is the policy editor.
type policyPage struct {
	site.Frame
	Base         string        // target of its form
	Policies     []policyRow   // list next to the form
	Total        int           // all policies
	Policy       *rules.Policy // the active version, nil for a new policy
	Draft        *draft
	Meaning      *meaning // nil if the draft's rules are invalid
	Changes      []difference
	ResetsCounts string // what happens to the counts, "" if they stay
	Versions     []versionRow
	Compared     *versionRow // the version that is compared with the active one
	Try          *trial
	CanTrace     bool
	Nodes        bool // several nodes share the logs
	// Use is what the policy decided in the last day, nil if it is not shown. Planned is the
	// number of keys with a plan that selects them for it.
	Use     *admin.PolicyUse
	Planned int
	// Unsaid are warnings about values that never count, or that requests never say, and about
	// automatic blocks that go on.
	Unsaid []string
	// Leaves says to which policy the keys fall if the policy is deleted, "" for no keys.
	Leaves string
	Beside *beside // the draft in shadow mode, nil for none
	// DraftOf is the policy of which the shown policy is the draft, "" for none.
	DraftOf string
}

type versionRow struct {
	*rules.Policy
	Decides      bool
	Changes      []difference // from it to the active version
	ResetsCounts string       // see policyPage, for restoring the version
}

// Next is the version number after saving.
func (p *policyPage) Next() int64 {
	if p.Policy == nil {
		return 1
	}
	return p.Policy.Version + 1
}

// Tag identifies the shown state, for the forms that change it.
func (p *policyPage) Tag() etag.Tag { return rules.TagOf(p.Policy) }

// Enforces reports whether the policy is in force, so that a draft of it runs beside it.
func (p *policyPage) Enforces() bool { return p.Policy != nil && p.Policy.Mode == rules.Enforce }

// Changed reports whether the draft differs from the active version.
func (p *policyPage) Changed() bool { return p.Policy == nil || len(p.Changes) > 0 || p.Meaning == nil }

// IsShadow reports whether the policy is in shadow mode.
func (p *policyPage) IsShadow() bool { return p.Policy != nil && p.Policy.Mode == rules.Shadow }

// NoteIDs returns the elements that checking the draft updates.
func (p *policyPage) NoteIDs() string {
	ids := "#unit-note,#time_zone-note,#cost-note,#concurrent-note,#hold-note,#on_expiry-note,#outcome-note,#scope-note,#distinct-note,#evidence-note,#also-note,#refused-note,#meaning,#changes,#escalation-note,#rules-note,#save-note,#algorithm-note,#burst-note"
	for _, w := range p.Draft.When {
		ids += ",#" + w.Name + "-note"
	}
	for i := range p.Draft.Rows {
		ids += ",#rule-note-" + strconv.Itoa(i)
	}
	for i := range p.Draft.Match {
		ids += ",#match-note-" + strconv.Itoa(i)
	}
	return ids
}

func (h *Handler) showNewPolicy(c *httpserver.Call) error {
	d := newDraft()
	for i := range d.When { // as the page Traffic asks for it
		if text := c.Query(d.When[i].Name); text != "" && len(text) <= maxWhen {
			d.When[i].Text, d.Match[0].Text = text, "ip:*"
		}
	}
	if match := c.Query("match"); match != "" && len(match) <= maxWhen { // as the page Bots does
		d.Match[0].Text = match
	}
	if c.Query("refuse") == "" || h.Detection == nil {
		return h.renderPolicy(c, http.StatusOK, nil, d, nil)
	}
	tried, err := h.refuseSelected(c, d)
	if err != nil {
		return err
	}
	return h.renderPolicy(c, http.StatusOK, nil, d, tried)
}

func (h *Handler) showPolicy(c *httpserver.Call) error {
	p, err := h.policyOf(c)
	if err != nil {
		return err
	}
	return h.renderPolicy(c, http.StatusOK, p, draftOf(p), nil)
}

// policyOf returns the policy in the path, nil for a new one.
func (h *Handler) policyOf(c *httpserver.Call) (*rules.Policy, error) {
	name := c.Params("name")
	if name == "" {
		return nil, nil
	}
	p, err := h.Policies.FindPolicyByName(c.Context(), name)
	if known, found := h.Catalog.Selector().ByName(name); found && site.IsRead(c) && fault.Is(err, fault.Unavailable) && h.Outage() != nil {
		return known, nil
	}
	return p, err
}

// renderPolicy validates a draft and shows it in the editor.
func (h *Handler) renderPolicy(c *httpserver.Call, status int, p *rules.Policy, d *draft, try *trial) error {
	ctx := c.Context()
	page := &policyPage{
		Frame: h.NewFrame(c, "New policy", "/policies"), Base: newPolicyPath, Policy: p, Draft: d, Try: try,
		CanTrace: h.Policies.CanTry(), Nodes: h.IsShared,
	}
	if p != nil {
		page.Title, page.Base = p.Name, policyPath(p.Name)
		page.DraftOf, _ = rules.DraftOf(p)
	}
	wanted := d.policy(h.Catalog.Parser(), p)
	if site.IsRead(c) { // an empty name is no error before anything was typed
		delete(d.FieldErrors, "name")
	}
	if readable := d.readable(); readable != nil {
		page.Meaning = meaningOf(readable)
	}
	if p != nil && wanted != nil {
		page.Changes, page.ResetsCounts = differences(p, wanted), p.DescribeReset(wanted)
	}
	var err error
	name := ""
	if p != nil {
		name = p.Name
		if err = h.Tolerate(&page.Frame, h.addVersions(ctx, c, page)); err != nil {
			return err
		}
		if !site.IsHTMX(c.Ctx) { // htmx does not show it, and asks after every key press
			if err = h.Tolerate(&page.Frame, addUse(ctx, h, page)); err != nil {
				return err
			}
			if err = h.Tolerate(&page.Frame, h.addBeside(ctx, page)); err != nil {
				return err
			}
		}
	}
	all, err := h.allPolicies(ctx, &page.Frame)
	if err != nil {
		return err
	}
	page.Total = len(all)
	if page.Policy != nil {
		for _, w := range page.Policy.AlsoWarnings() {
			page.Unsaid = append(page.Unsaid, w.Message)
		}
		page.Unsaid = append(page.Unsaid, h.Catalog.Selector().Unsaid(page.Policy.ID)...)
		page.Unsaid = append(page.Unsaid, h.Policies.BlocksLeft(page.Policy, page.Policy)...)
	}
	if page.Policies, err = h.policyRows(ctx, &page.Frame, around(all, name), name); err != nil {
		return err
	}
	if err := h.Tolerate(&page.Frame, h.policyToast(ctx, c, page)); err != nil {
		return err
	}
	return h.Render(c, status, "policy", page)
}

// around returns the policies beside the one with a name, as many as a page of the list has.
func around(all []*rules.Policy, name string) []*rules.Policy {
	at := slices.IndexFunc(all, func(p *rules.Policy) bool { return p.Name == name })
	from := max(0, min(at-site.RowsPerPage/2, len(all)-site.RowsPerPage))
	return all[from:min(len(all), from+site.RowsPerPage)]
}

// readable returns the rules of a validated draft and how it counts them. It returns nil only
// if the rules are invalid, and ignores errors of other fields.
func (d *draft) readable() *rules.Policy {
	var texts []string
	if r, isRule, isGood := d.concurrentRule(); !isGood {
		return nil
	} else if isRule {
		texts = append(texts, r.String())
	}
	for i := range d.Rows {
		row := &d.Rows[i]
		if row.Error != "" {
			return nil
		}
		if row.Limit != "" {
			texts = append(texts, d.ruleText(row))
		}
	}
	p := &rules.Policy{InAttack: d.InAttack}
	if conditions.CheckOutcome(d.Outcome) == nil { // an invalid one has an error at its field
		p.Outcome = d.Outcome
	}
	if conditions.CheckScope(d.Scope) == nil {
		p.Scope = d.Scope
	}
	if !d.readWhen(p) || !d.readEvidence(p) || !d.readAlso(p) {
		return nil
	}
	a := algorithms.ByName(d.Algorithm.Name)
	if a == nil || !d.readAlgorithm(p) || a.Check(p.Options) != nil {
		return nil
	}
	var err error
	if p.Rules, err = rules.ParseStack(texts); err != nil || p.SetZone(d.Amounts.TimeZone) != nil {
		return nil
	}
	return p
}

// versionsMax bounds the versions that the editor lists.
const versionsMax = 20

func (h *Handler) addVersions(ctx context.Context, c *httpserver.Call, page *policyPage) error {
	all, err := h.Policies.PolicyVersions(ctx, page.Policy.Name)
	if err != nil {
		return err
	}
	compare, _ := strconv.ParseInt(c.Query("compare"), 10, 64)
	for i, v := range all {
		row := versionRow{Policy: v, Decides: v.Version == page.Policy.Version}
		if v.Version == compare && !row.Decides {
			row.Changes, row.ResetsCounts = differences(v, page.Policy), page.Policy.DescribeReset(v)
			page.Compared = &row
		}
		if i < versionsMax {
			page.Versions = append(page.Versions, row)
		}
	}
	return nil
}

// addUse shows what deleting the policy would end, to users who may delete it.
func addUse(ctx context.Context, h *Handler, page *policyPage) error {
	if !page.May("admin") {
		return nil
	}
	reason, err := h.Policies.ConfirmReason(ctx, page.Policy.Name, nil)
	if page.Leaves = format.Capital(reason); err != nil || h.Detection == nil {
		return err
	}
	now := h.Now()
	use, err := admin.ReadPolicyUse(ctx, h.Detection, page.Policy.ID, now.Add(-admin.LastDay), now)
	if err != nil {
		return err
	}
	page.Use = &use
	plans, err := h.Profiles.Plans(ctx)
	for _, p := range plans {
		if p.Policy == page.Policy.Name {
			page.Planned += p.Keys
		}
	}
	return err
}

// showDraft validates a draft without saving it.
func (h *Handler) showDraft(c *httpserver.Call) error {
	p, d, err := h.draftFrom(c)
	if err != nil {
		return err
	}
	return h.renderPolicy(c, http.StatusOK, p, d, nil)
}

func (h *Handler) draftFrom(c *httpserver.Call) (*rules.Policy, *draft, error) {
	p, err := h.policyOf(c)
	if err != nil {
		return nil, nil, err
	}
	d, err := readDraft(form.Values(c), p)
	if err != nil {
		return nil, nil, err
	}
	if p != nil {
		d.Name = p.Name
	}
	return p, d, nil
}

func (h *Handler) saveNewPolicy(c *httpserver.Call) error {
	_, d, err := h.draftFrom(c)
	if err != nil {
		return err
	}
	d.Expect = etag.New
	return h.save(c, nil, d)
}

func (h *Handler) savePolicy(c *httpserver.Call) error {
	p, d, err := h.draftFrom(c)
	if fault.Is(err, fault.NotFound) {
		return h.offerDeleted(c)
	}
	if err != nil {
		return err
	}
	return h.save(c, p, d)
}

// offerDeleted shows what was typed about a policy that does not exist, to be saved as a new one.
func (h *Handler) offerDeleted(c *httpserver.Call) error {
	d, err := readDraft(form.Values(c), nil)
	if err != nil {
		return err
	}
	d.Name, d.Expect, d.FieldErrors["name"] = c.Params("name"), etag.New, "This policy has been deleted. If you save it, it is created again, and its counts start from zero."
	return h.renderPolicy(c, http.StatusConflict, nil, d, nil)
}
