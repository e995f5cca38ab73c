package adminui

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/phrase"
)

// attacksPage lists the attacks that were announced.
type attacksPage struct {
	site.MonitorPage
	Attacks []*offences.AttackCourse
	Pager   pager
	// Blocked says how many keys escalation blocked while an attack went on, by its ID, "" for none.
	Blocked map[string]string
	// InForce says what applies because of the attack that goes on, "" for nothing.
	InForce string
}

// attacksHandler lists the attacks.
type attacksHandler struct {
	*site.Site
	detection *admin.Detection // nil if offences are not counted
}

func (h *attacksHandler) routes() []httpserver.Route {
	return []httpserver.Route{h.Get("/attacks", identity.Read, h.showAttacks)}
}

func (h *attacksHandler) showAttacks(c *httpserver.Call) error {
	if h.detection == nil {
		return admin.ErrNotCounted
	}
	w, err := h.NewMonitorPage(c, "Attacks", "/attacks", "cursor")
	if err != nil {
		return err
	}
	page := &attacksPage{MonitorPage: w}
	cursor := page.Query.Get("cursor")
	found, next, err := h.detection.FindAttacks(c.Context(), cursor, site.RowsPerPage)
	if err != nil {
		return err
	}
	page.Attacks = found
	measures, err := h.detection.InForce(c.Context())
	if err != nil {
		return err
	}
	page.InForce = strings.Join(slices.Concat(measures.Policies, measures.Sources), ", ")
	if err := h.addBlocked(c.Context(), page); err != nil {
		return err
	}
	if cursor != "" {
		page.Pager.Newest = page.Link("/attacks")
	}
	if next != "" {
		page.Pager.Older = page.Link("/attacks", "cursor", next)
	}
	return h.Render(c, http.StatusOK, "attacks", page)
}

// addBlocked counts the keys that were blocked automatically in each attack.
func (h *attacksHandler) addBlocked(ctx context.Context, page *attacksPage) error {
	page.Blocked = map[string]string{}
	for _, a := range page.Attacks {
		events, _, err := h.detection.EscalationEvents(ctx, offences.EscalationFilter{From: a.Began, To: page.end(a).Add(time.Minute), Limit: maxCountedBlocks})
		if err != nil {
			return err
		}
		page.Blocked[a.ID] = blockedText(events)
	}
	return nil
}

// blockedText says how many keys escalations blocked, some perhaps several times; "" for none.
func blockedText(events []offences.EscalationEvent) string {
	blocked := map[string]bool{}
	for _, e := range events {
		if e.Kind == offences.EscalationBlocked {
			blocked[e.Key] = true
		}
	}
	text := phrase.Count(int64(len(blocked)), "key") + " blocked"
	switch {
	case len(blocked) == 0:
		return ""
	case len(events) == maxCountedBlocks:
		return "at least " + text
	}
	return text
}

// maxCountedBlocks bounds the events of one attack that are read.
const maxCountedBlocks = 1000

// end returns when an attack ended, or now.
func (p *attacksPage) end(a *offences.AttackCourse) time.Time {
	if a.Ended.IsZero() {
		return p.Now
	}
	return a.Ended
}

// RequestsLink returns the address of what was refused while an attack went on.
func (p *attacksPage) RequestsLink(a *offences.AttackCourse) string {
	return site.WithRange(trafficPath, format.TimeRange{From: a.Began.UTC().Truncate(time.Minute), To: p.end(a).Add(time.Minute).UTC().Truncate(time.Minute)}, "decision", "refused")
}

// Rate formats checks per second.
func (p *attacksPage) Rate(f float64) string { return format.PerSecond(f) }

// Percent formats the part of a source.
func (p *attacksPage) Percent(f float64) string { return format.WholePercent(f) }

// Length returns how long an attack lasted, or has lasted so far.
func (p *attacksPage) Length(a *offences.AttackCourse) time.Duration {
	return max(p.end(a).Sub(a.Began), 0).Truncate(time.Minute)
}

// ChartLink returns the address of the overview around an attack.
func (p *attacksPage) ChartLink(a *offences.AttackCourse) string {
	const margin = 10 * time.Minute
	end := a.Ended
	if end.IsZero() || end.Add(margin).After(p.Now) {
		end = p.Now.Add(-margin)
	}
	return site.WithRange("/", format.TimeRange{From: a.Began.Add(-margin).UTC().Truncate(time.Minute), To: end.Add(margin).UTC().Truncate(time.Minute)})
}

// SourceLink returns the address of the offenders of a source while its attack went on.
func (p *attacksPage) SourceLink(a *offences.AttackCourse, s offences.CourseSource) string {
	return site.WithRange("/offenders", format.TimeRange{From: a.Began.UTC().Truncate(time.Minute), To: p.end(a).Add(time.Minute).UTC().Truncate(time.Minute)}, "pattern", s.Pattern)
}

// BlockLink returns the address of the form that blocks a source.
func (p *attacksPage) BlockLink(a *offences.AttackCourse, s offences.CourseSource) string {
	return p.MonitorPage.BlockLink(s.Pattern, "attack since "+a.Began.UTC().Format("2 Jan, 15:04 UTC"))
}
