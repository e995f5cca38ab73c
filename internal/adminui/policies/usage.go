package policies

import (
	"context"
	"net/http"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui/chart"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/rules"
)

// usagePage shows the effect of a policy, and how close its keys came to its rules.
type usagePage struct {
	site.MonitorPage
	*admin.PolicyUsage
	Chart *chart.Area // nil if there were no checks
	Worst []offences.Offender
}

// IsShadow reports whether the policy is in shadow mode.
func (p *usagePage) IsShadow() bool { return p.Policy.Mode == rules.Shadow }

// Refused returns the number of refusals, or of those that an enforcing policy would have made.
func (p *usagePage) Refused() int64 {
	if p.IsShadow() {
		return p.Totals.ShadowLimited
	}
	return p.Totals.Limited
}

// Blocked returns the number of checks that blocks refused before the policy counted them. The
// chart and the top offenders have them, too.
func (p *usagePage) Blocked() int64 {
	if p.IsShadow() {
		return 0
	}
	return p.Totals.Blocked
}

// Checks returns the number of checks that the policy decided, or would have decided.
func (p *usagePage) Checks() int64 {
	if p.IsShadow() {
		return p.Totals.ShadowAllowed + p.Totals.ShadowLimited
	}
	return p.Totals.Allowed + p.Totals.Limited
}

// PartOf formats a peak as a ratio of a rule's limit.
func (p *usagePage) PartOf(peak int64, rule rules.Rule) string {
	if rule.Limit == 0 {
		return ""
	}
	return phrase.Number(100*peak/int64(rule.Limit)) + "%"
}

// Sampled says from which keys the figures of the rules are.
func (p *usagePage) Sampled() string {
	if p.SampleRatio < 1 {
		return "From a sample of " + phrase.Ratio(int64(p.SampleRatio*1e6), 1e6) + " of the keys"
	}
	return "Of all keys"
}

// OffendersLink returns the address of the policy's offenders.
func (p *usagePage) OffendersLink() string {
	shadow := ""
	if p.IsShadow() {
		shadow = "true"
	}
	return p.Link("/offenders", "policy", p.Policy.Name, "shadow", shadow)
}

const worstKeys = 10

func (h *Handler) showUsage(c *httpserver.Call) error {
	if h.Detection == nil {
		return admin.ErrNotCounted
	}
	name := c.Params("name")
	w, err := h.NewMonitorPage(c, "Usage of "+name, "/policies")
	if err != nil {
		return err
	}
	w.Path, w.Refresh = policyPath(name)+"/usage", 0
	ctx := c.Context()
	page := &usagePage{MonitorPage: w}
	if page.PolicyUsage, err = h.Detection.PolicyUsage(ctx, name, w.Range.From, w.Range.To); err != nil {
		return err
	}
	if err := page.draw(ctx, h.Detection); err != nil {
		return err
	}
	report, err := h.Detection.Offenders(ctx, offences.Query{
		From: w.Range.From, To: w.Range.To, Policy: page.Policy.ID, Shadow: page.IsShadow(), Limit: worstKeys,
	})
	if err != nil {
		return err
	}
	page.Worst = report.Rows
	return h.Render(c, http.StatusOK, "policy-usage", page)
}

func (p *usagePage) draw(ctx context.Context, detection *admin.Detection) error {
	if p.Checks() == 0 {
		return nil
	}
	traffic, err := detection.TrafficCounts(ctx, p.Policy.ID, p.Range.From, p.Range.To, chart.Step(p.Range.Length()))
	if err != nil {
		return err
	}
	if p.IsShadow() {
		for i := range traffic.Points {
			point := &traffic.Points[i]
			point.Allowed, point.Limited, point.Blocked = point.ShadowAllowed, point.ShadowLimited, 0
		}
	}
	p.Chart = chart.DrawArea(offences.Intervals(traffic.Points, traffic.From, p.Range.To, traffic.Step), p.Range, traffic.Step)
	refused := "refused "
	if p.IsShadow() {
		refused = "would have refused "
	}
	p.Chart.Sentence = "Of " + format.Compact(p.Checks()) + " checks the policy " + refused + format.Compact(p.Refused()) + "."
	return nil
}
