package adminui

import (
	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/phrase"
)

// originsPath is the path of the page that sums offences by origin.
const originsPath = "/offenders/origins"

// originsPage sums offences by autonomous system or country.
type originsPage struct {
	site.MonitorPage
	IsOn      bool // there are files with origins
	ByCountry bool
	Report    *admin.OriginReport
	Rows      []originRow
}

// originRow is one row of the page.
type originRow struct {
	admin.OriginOffences
	Name    string // of the autonomous system, "" if it is unknown
	Pattern string // "" for keys without a known origin
	Ratio   string // of all offences
}

// originsHandler serves the page of origins.
type originsHandler struct {
	*site.Site
	detection *admin.Detection // nil if offences are not counted
	origins   *operations.Origins
}

func (h *originsHandler) routes() []httpserver.Route {
	return []httpserver.Route{h.Get(originsPath, identity.Read, h.showOrigins)}
}

func (h *originsHandler) showOrigins(c *httpserver.Call) error {
	if h.detection == nil {
		return admin.ErrNotCounted
	}
	w, err := h.NewMonitorPage(c, "Origins of offenders", "/offenders", append([]string{"by"}, offenderParams...)...)
	if err != nil {
		return err
	}
	w.Path = originsPath
	page := &originsPage{MonitorPage: w, IsOn: h.origins.IsOn()}
	by := page.Query.Get("by")
	page.ByCountry = by == admin.ByCountry
	if !page.IsOn {
		return h.RenderLive(c, "origins", page)
	}
	q, err := offenderQuery(h.Site, &page.MonitorPage)
	if err != nil {
		return err
	}
	if page.Report, err = h.detection.Origins(c.Context(), q, by); err != nil {
		return err
	}
	for _, row := range page.Report.Rows[:min(len(page.Report.Rows), offendersPage)] {
		page.Rows = append(page.Rows, originRow{OriginOffences: row, Name: h.origins.NameOf(row.ASN), Pattern: row.Pattern.String(), Ratio: phrase.Ratio(row.Offences, page.Report.Offences)})
	}
	return h.RenderLive(c, "origins", page)
}

// keyOrigin is the origin of a key on its page.
type keyOrigin struct {
	operations.Origin
	Patterns []string // patterns of its origin, the more specific one first
}

func keyOriginOf(c *httpserver.Call, origins *operations.Origins, key string) *keyOrigin {
	found := origins.Of(c.Context(), key)
	if found.IsZero() {
		return nil
	}
	o := &keyOrigin{Origin: found}
	for _, p := range origins.PatternsOf(key) {
		o.Patterns = append(o.Patterns, p.String())
	}
	return o
}
