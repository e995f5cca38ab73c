package policies

import (
	"net/http"

	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/httpserver"
)

const listsPath = "/lists"

// listsPage shows the lists of patterns that conditions may contain.
type listsPage struct {
	site.Frame
	Lists []*conditions.List
}

func (h *Handler) showLists(c *httpserver.Call) error {
	return h.Render(c, http.StatusOK, "lists", listsPage{Frame: h.NewFrame(c, "Lists", "/policies"), Lists: conditions.Lists()})
}
