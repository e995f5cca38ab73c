package adminui

import (
	"net/http"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/httpserver"
)

// refusalPage explains one refusal id.
type refusalPage struct {
	site.MonitorPage
	Explanation *admin.RefusalExplanation
	Rows        []keyRefusal
}

// Total counts the refusals of the minute.
func (p *refusalPage) Total() int64 {
	var n int64
	for _, o := range p.Explanation.Offences {
		n += o.Count
	}
	return n
}

func (h *keyHandler) showRefusal(c *httpserver.Call, w site.MonitorPage, id string) error {
	if h.detection == nil {
		return admin.ErrNotCounted
	}
	ctx := c.Context()
	page := &refusalPage{MonitorPage: w}
	page.Title = "Refusal " + format.ClipLine(id, 30)
	page.Refresh = 0
	var err error
	if page.Explanation, err = h.detection.ExplainRefusal(ctx, id); err != nil {
		return err
	}
	for _, o := range page.Explanation.Offences {
		page.Rows = append(page.Rows, refusalRow(page.Explanation.ID, o))
	}
	return h.Render(c, http.StatusOK, "refusal", page)
}
