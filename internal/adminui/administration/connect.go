package administration

import (
	"net/http"
	"strings"

	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

type connectPage struct {
	site.Frame
	Gateways []wire.Gateway
	Guide    wire.Guide
	// WritesToken means that the configuration has a new token in it.
	WritesToken bool
}

// piece is a part of a text.
type piece struct {
	Text string
	Code bool   // it was between backquotes
	Link string // to the page of docs that it names, or to the gateway of that page; "" for none
}

// Pieces returns the pieces of a text.
func (p connectPage) Pieces(text string) []piece {
	var all []piece
	for i, part := range strings.Split(text, "`") {
		next := piece{Text: part, Code: i%2 == 1}
		if file, found := strings.CutPrefix(part, "docs/"); next.Code && found {
			next.Link = p.DocsURL() + "/" + file
			for _, g := range p.Gateways {
				if file == "doors/"+g.Name+".md" && g.Name != p.Guide.Name {
					next.Link = "/connect/" + g.Name
				}
			}
		}
		all = append(all, next)
	}
	return all
}

// connectHandler shows how gateways are connected.
type connectHandler struct {
	*site.Site
	connect *operations.Connect
}

func init() {
	add(func(s *site.Site, d Deps) handler { return &connectHandler{Site: s, connect: d.Connect} })
}

func (h *connectHandler) routes() []httpserver.Route {
	return []httpserver.Route{
		h.InMenu(site.Administration, 6, "Connect", h.Get("/connect", identity.Read, h.showGateways)),
		h.Get("/connect/:name", identity.Read, h.showGuide),
		h.Post("/connect/:name/token", identity.Admin, h.addToken),
	}
}

// showGateways shows the gateway that is most common.
func (h *connectHandler) showGateways(c *httpserver.Call) error {
	return h.show(c, "nginx")
}

func (h *connectHandler) showGuide(c *httpserver.Call) error {
	return h.show(c, c.Params("name"))
}

func (h *connectHandler) show(c *httpserver.Call, name string) error {
	guide, err := h.connect.Guide(name, c.Hostname())
	if err != nil {
		return err
	}
	return h.render(c, guide)
}

func (h *connectHandler) addToken(c *httpserver.Call) error {
	guide, err := h.connect.CreateToken(c.Context(), site.CallerOf(c), c.Params("name"), c.Hostname())
	if err != nil {
		return err
	}
	return h.render(c, guide)
}

func (h *connectHandler) render(c *httpserver.Call, guide wire.Guide) error {
	return h.Render(c, http.StatusOK, "connect", connectPage{
		Frame: h.NewFrame(c, "Connect", "/connect"), Gateways: h.connect.Gateways(), Guide: guide, WritesToken: h.connect.WritesToken(guide.Name),
	})
}
