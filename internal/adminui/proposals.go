package adminui

import (
	"context"
	"math"
	"net/http"
	"net/netip"
	"strconv"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui/chart"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/wire"
)

// proposalsPage lists the open proposals and those that were decided.
type proposalsPage struct {
	site.MonitorPage
	Open, Decided           []*proposalView
	OpenPager, DecidedPager pager
}

// proposalPage asks for a decision about one proposal.
type proposalPage struct {
	site.MonitorPage
	Proposal    *proposalView
	For         string
	Until       string
	Reason      string
	FieldErrors form.FieldErrors
	Confirm     string
	Preview     *preview // impact of blocking the range; nil after the decision
}

// Choices returns the durations that the form offers.
func (p *proposalPage) Choices() []form.Choice { return lengthChoices }

// proposalView is a proposal with a drawing of its range.
type proposalView struct {
	*offences.Proposal
	Marks       []rangeMark
	Left, Right string // the ends of the drawing
	Middle      string
	Unit        string // "addresses" or "/64s"
}

// rangeMark is one address or one /64 of a range.
type rangeMark struct {
	X      string // percent
	Kind   string // offended, seen or exempt
	Height string // only if it offended, in pixels below 24
	Y      string
}

const rangeHeight = 24

// viewProposal draws the evidence: each address at its position in the range.
func viewProposal(p *offences.Proposal) *proposalView {
	v := &proposalView{Proposal: p, Unit: "addresses", Left: ".0", Middle: ".128", Right: ".255"}
	network, is := p.Pattern.Network()
	if !is {
		return v
	}
	if network.Addr().Is6() {
		v.Unit, v.Left, v.Middle, v.Right = "/64s", ":0:", ":8000:", ":ffff:"
	}
	var most int64
	for _, k := range p.Evidence.Offended {
		most = max(most, k.Refused)
	}
	for _, k := range p.Evidence.Offended {
		if x, within := placeIn(network, k.Key, p.Evidence.Size); within {
			height := 4 + (rangeHeight-4)*math.Log1p(float64(k.Refused))/math.Log1p(float64(max(1, most)))
			v.Marks = append(v.Marks, rangeMark{X: x, Kind: "offended", Height: strconv.FormatFloat(height, 'f', 1, 64), Y: strconv.FormatFloat(rangeHeight-height, 'f', 1, 64)})
		}
	}
	for _, k := range p.Evidence.Seen {
		if x, within := placeIn(network, k.Key, p.Evidence.Size); within {
			v.Marks = append(v.Marks, rangeMark{X: x, Kind: "seen"})
		}
	}
	for _, text := range p.Evidence.Exempt {
		if x, within := placeIn(network, text, p.Evidence.Size); within {
			v.Marks = append(v.Marks, rangeMark{X: x, Kind: "exempt"})
		}
	}
	return v
}

// placeIn returns the position of a key within a range.
func placeIn(network netip.Prefix, text string, size int64) (string, bool) {
	pattern, err := (keys.Parser{IPv6Bits: 128}).Pattern(text)
	if err != nil {
		return "", false
	}
	of, is := pattern.Network()
	if !is || !network.Contains(of.Addr()) {
		return "", false
	}
	raw := of.Addr().As16()
	at := int64(raw[15])
	if network.Addr().Is6() {
		at = int64(raw[6])<<8 | int64(raw[7])
	}
	return chart.Percent((float64(at) + 0.5) / float64(max(1, size))), true
}

// Sentence describes the drawing.
func (v *proposalView) Sentence() string {
	e := v.Evidence
	if e.IsRequested {
		return e.Asked() + "."
	}
	figures := e.Figures()
	if figures != "" {
		figures = ", " + figures
	}
	return phrase.Number(e.OffendedCount) + " of its " + phrase.Number(e.Size) + " " + v.Unit + " offended in " + phrase.Duration(e.To.Sub(e.From)) + figures + "."
}

// SeenText describes the addresses that a block would hit although they did not offend.
func (v *proposalView) SeenText() string {
	return v.count(v.Evidence.SeenCount) + ", " + phrase.Count(v.Evidence.Allowed, "request") + " allowed"
}

// OffendedText describes the addresses that offended.
func (v *proposalView) OffendedText() string {
	return v.count(v.Evidence.OffendedCount) + ", " + format.Compact(v.Evidence.Offences) + " offences"
}

// count formats a number of addresses, or of /64s.
func (v *proposalView) count(n int64) string {
	switch {
	case v.Unit != "addresses":
		return phrase.Count(n, "/64")
	case n == 1:
		return "1 address"
	}
	return phrase.Number(n) + " addresses"
}

// DecisionWord returns the state of the proposal for people.
func (v *proposalView) DecisionWord() string {
	switch v.Decision {
	case offences.Accepted:
		return "blocked"
	case offences.Covered:
		return "closed"
	}
	return "dismissed"
}

// proposalsHandler lists and decides proposals.
type proposalsHandler struct {
	*site.Site
	detection *admin.Detection // nil if offences are not counted
	toasts    *toasts
	entries   *admin.Entries
}

func (h *proposalsHandler) routes() []httpserver.Route {
	return []httpserver.Route{
		h.Get("/proposals", identity.Read, h.showProposals),
		h.Get("/proposals/:id", identity.Read, h.showProposal),
		h.Post("/proposals/:id/accept", identity.Operate, h.acceptProposal),
		h.Post("/proposals/:id/dismiss", identity.Operate, h.dismissProposal),
	}
}

func (h *proposalsHandler) showProposals(c *httpserver.Call) error {
	if h.detection == nil {
		return admin.ErrNotCounted
	}
	w, err := h.NewMonitorPage(c, "Proposals", "/proposals", "done", "ids", openCursor, decidedCursor)
	if err != nil {
		return err
	}
	page := &proposalsPage{MonitorPage: w}
	ctx := c.Context()
	if page.Toast, err = h.toasts.find(ctx, &page.MonitorPage); err != nil {
		return err
	}
	if page.Open, page.OpenPager, err = h.find(ctx, page, offences.OpenProposals, openCursor, decidedCursor); err != nil {
		return err
	}
	if page.Decided, page.DecidedPager, err = h.find(ctx, page, offences.DecidedProposals, decidedCursor, openCursor); err != nil {
		return err
	}
	return h.Render(c, http.StatusOK, "proposals", page)
}

// The parameters that hold the cursors of the two lists.
const (
	openCursor    = "cursor"
	decidedCursor = "decided"
)

// find returns one page of a list and the links to its other pages. param is the parameter with
// its cursor. The links keep the parameter other, which has the cursor of the other list.
func (h *proposalsHandler) find(ctx context.Context, page *proposalsPage, state offences.ProposalState, param, other string) (views []*proposalView, p pager, err error) {
	cursor := page.Query.Get(param)
	found, next, err := h.detection.Proposals.Find(ctx, state, cursor, site.RowsPerPage)
	if err != nil {
		return nil, p, err
	}
	for _, f := range found {
		views = append(views, viewProposal(f))
	}
	if cursor != "" {
		p.Newest = page.Link("/proposals", other, page.Query.Get(other))
	}
	if next != "" {
		p.Older = page.Link("/proposals", param, next, other, page.Query.Get(other))
	}
	return views, p, nil
}

func (h *proposalsHandler) findProposal(c *httpserver.Call) (*proposalPage, error) {
	if h.detection == nil {
		return nil, admin.ErrNotCounted
	}
	w, err := h.NewMonitorPage(c, "Proposal", "/proposals")
	if err != nil {
		return nil, err
	}
	ctx := c.Context()
	p, err := h.detection.Proposals.ByID(ctx, c.Params("id"))
	if err != nil {
		return nil, err
	}
	page := &proposalPage{MonitorPage: w, Proposal: viewProposal(p), For: wire.DefaultBlock, FieldErrors: form.FieldErrors{}}
	if p.Decision == offences.Open {
		i, err := h.entries.Preview(ctx, site.CallerOf(c), blocks.Block, p.Pattern.String(), true)
		if err != nil {
			return nil, err
		}
		page.Preview = &preview{Impact: i, Covers: format.PatternSize(i.Pattern), blocks: true}
	}
	return page, nil
}

func (h *proposalsHandler) showProposal(c *httpserver.Call) error {
	page, err := h.findProposal(c)
	if err != nil {
		return err
	}
	return h.Render(c, http.StatusOK, "proposal", page)
}

func (h *proposalsHandler) acceptProposal(c *httpserver.Call) error {
	page, err := h.findProposal(c)
	if err != nil {
		return err
	}
	values := form.Values(c)
	page.For, page.Until, page.Confirm = values.Get("for"), values.Get("until"), values.Get("confirm")
	if page.Reason, err = form.Line(values, "reason", blocks.MaxReason); err != nil {
		if err = page.FieldErrors.Add(err); err != nil {
			return err
		}
	}
	ends, err := h.ParseExpiry(page.For, page.Until, h.Now())
	if err != nil {
		if err = page.FieldErrors.Add(err); err != nil {
			return err
		}
	}
	if len(page.FieldErrors) > 0 {
		return h.Render(c, site.StatusInvalidForm, "proposal", page)
	}
	ctx := c.Context()
	accepted, err := h.detection.Proposals.Accept(ctx, site.CallerOf(c), wire.AcceptProposalRequest{ID: page.Proposal.ID, Reason: page.Reason, ExpiresAt: wire.At(ends), Confirm: page.Confirm})
	if err != nil {
		if err = page.FieldErrors.Add(err); err != nil {
			return err
		}
		return h.Render(c, site.StatusInvalidForm, "proposal", page)
	}
	done := map[blocks.Outcome]string{blocks.Created: "blocked", blocks.Extended: "extended", blocks.Unchanged: "rangeblocked"}[accepted.Outcome]
	return h.ReturnTo(c, backOf(values.Get("back")), done, []string{accepted.BlockID})
}

func (h *proposalsHandler) dismissProposal(c *httpserver.Call) error {
	if h.detection == nil {
		return admin.ErrNotCounted
	}
	values := form.Values(c)
	reason, err := form.Line(values, "reason", blocks.MaxReason)
	if err != nil {
		return err
	}
	ctx := c.Context()
	if _, err = h.detection.Proposals.Dismiss(ctx, site.CallerOf(c), c.Params("id"), reason); err != nil {
		return err
	}
	return h.ReturnTo(c, backOf(values.Get("back")), "dismissed", nil)
}

// backOf returns where a decision leads: to the page on which it was made, or to the list.
func backOf(path string) string {
	if path == "" {
		return "/proposals"
	}
	return path
}
