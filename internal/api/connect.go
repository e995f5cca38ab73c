package api

import (
	"net/http"

	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

// connectHandler shows how gateways are connected.
type connectHandler struct {
	tokens  *tokenHandler
	connect *operations.Connect
}

func (h *connectHandler) routes() []route {
	const gateway = wire.PathConnect + "/:name"
	return []route{
		onAdmin(get, wire.PathConnect, identity.Read, h.listGateways, opListGateways),
		onAdmin(get, gateway, identity.Read, h.getGuide, opGetGuide),
		onAdmin(post, gateway+"/token", identity.Admin, h.addGatewayToken, opAddGatewayToken),
	}
}

var (
	opListGateways    = &openapi.Operation{ID: "listGateways", Tag: "identities", Summary: "List the gateways that Stint has a configuration for.", Answers: ok("The gateways.", wire.Page[wire.Gateway]{})}
	opGetGuide        = &openapi.Operation{ID: "getGuide", Tag: "identities", Summary: "Show how a gateway is connected to this installation.", Answers: ok("The configuration, without a token.", wire.Guide{})}
	opAddGatewayToken = &openapi.Operation{
		ID: "addGatewayToken", Tag: "identities", Summary: "Create a token for a gateway, with the least scope; its secret is shown only once.",
		Answers: []openapi.Answer{{Status: http.StatusCreated, Doc: "The configuration with the token.", Body: wire.Guide{}}},
	}
)

func (h *connectHandler) listGateways(c *httpserver.Call) error {
	if err := c.ParseQuery().Err(); err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, singlePage(h.connect.Gateways(), func(g operations.Gateway) wire.Gateway { return wire.Gateway(g) }))
}

func (h *connectHandler) getGuide(c *httpserver.Call) error {
	name, err := c.PathParam("name")
	if err != nil {
		return err
	}
	guide, err := h.connect.Guide(name, c.Hostname())
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, h.wireGuide(guide))
}

func (h *connectHandler) addGatewayToken(c *httpserver.Call) error {
	name, err := c.PathParam("name")
	if err != nil {
		return err
	}
	guide, err := h.connect.CreateToken(c.Context(), callerOf(c), name, c.Hostname())
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusCreated, h.wireGuide(guide))
}

func (h *connectHandler) wireGuide(g *operations.Guide) wire.Guide {
	w := wire.Guide{Gateway: wire.Gateway(g.Gateway), Scope: g.Scope, NeedsToken: g.NeedsToken}
	for _, s := range g.Steps {
		w.Steps = append(w.Steps, wire.GuideStep(s))
	}
	if g.Token != nil {
		w.Token = &wire.CreatedToken{Token: h.tokens.wireToken(g.Token.Token), Secret: g.Token.Secret, Warnings: notNil(g.Token.Warnings)}
	}
	return w
}
