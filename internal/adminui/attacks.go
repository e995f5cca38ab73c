package adminui

import (
	"net/http"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/offences"
)

// attacksPage lists the attacks that were announced.
type attacksPage struct {
	site.MonitorPage
	Attacks []*offences.AttackCourse
	Pager   pager
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
	if cursor != "" {
		page.Pager.Newest = page.Link("/attacks")
	}
	if next != "" {
		page.Pager.Older = page.Link("/attacks", "cursor", next)
	}
	return h.Render(c, http.StatusOK, "attacks", page)
}

// Rate formats checks per second.
func (p *attacksPage) Rate(f float64) string { return format.PerSecond(f) }

// Percent formats the part of a source.
func (p *attacksPage) Percent(f float64) string { return format.WholePercent(f) }

// Length returns how long an attack lasted, or has lasted so far.
func (p *attacksPage) Length(a *offences.AttackCourse) time.Duration {
	end := a.Ended
	if end.IsZero() {
		end = p.Now
	}
	return max(end.Sub(a.Began), 0).Truncate(time.Minute)
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
	end := a.Ended
	if end.IsZero() {
		end = p.Now
	}
	return site.WithRange("/offenders", format.TimeRange{From: a.Began.UTC().Truncate(time.Minute), To: end.Add(time.Minute).UTC().Truncate(time.Minute)}, "pattern", s.Pattern)
}

// BlockLink returns the address of the form that blocks a source.
func (p *attacksPage) BlockLink(a *offences.AttackCourse, s offences.CourseSource) string {
	return site.WithRange("/blocks/new", p.Range, "pattern", s.Pattern, "reason", "attack since "+a.Began.UTC().Format("2 Jan, 15:04 UTC"))
}
