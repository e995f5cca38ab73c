package api

import (
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/admin/identities"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

// tokenHandler serves the API tokens.
type tokenHandler struct {
	common
	tokens *identities.Tokens
}

func (h *tokenHandler) routes() []route {
	const token = wire.PathTokens + "/:id"
	return []route{
		onAdmin(get, wire.PathTokens, identity.Admin, h.listTokens, opListTokens),
		onAdmin(post, wire.PathTokens, identity.Admin, h.addToken, opAddToken),
		onAdmin(get, token, identity.Admin, h.getToken, opGetToken),
		onAdmin(patch, token, identity.Admin, h.changeToken, opChangeToken),
		onAdmin(post, token+"/rotate", identity.Admin, h.rotateToken, opRotateToken),
		onAdmin(del, token, identity.Admin, h.revokeToken, opRevokeToken),
	}
}

var (
	opListTokens = &openapi.Operation{
		ID: "listTokens", Tag: "identities", Summary: "List the tokens, all or a page; ended ones are included.",
		Query: append(routes.WholeList("Only tokens whose name or beginning of the secret contains this text, case-insensitive, and the one whose whole secret it is.",
			"created, also if omitted: the oldest first; name; last_used: the last used first; expiry: what ends or ended soonest first.", identity.TokenOrders),
			openapi.Param{Name: "state", Doc: "The state of the tokens; all if omitted.", Enum: tokenStates}),
		Answers: ok("The tokens.", wire.Page[wire.Token]{}),
	}
	opAddToken    = &openapi.Operation{ID: "addToken", Tag: "identities", Summary: "Create a token; its secret is shown only once.", Body: wire.TokenRequest{}, Answers: []openapi.Answer{{Status: http.StatusCreated, Doc: "Created.", Body: wire.CreatedToken{}, Headers: location}}}
	opGetToken    = &openapi.Operation{ID: "getToken", Tag: "identities", Summary: "Show a token.", Answers: ok("The token.", wire.Token{})}
	opChangeToken = &openapi.Operation{ID: "changeToken", Tag: "identities", Summary: "Change a token's name or end.", Body: wire.TokenPatch{}, Answers: ok("The token.", wire.Token{})}
	opRotateToken = &openapi.Operation{
		ID: "rotateToken", Tag: "identities", Summary: "Replace a token with a new one; the old one stays valid for the overlap.",
		Body: wire.RotateRequest{}, BodyOptional: true, Answers: []openapi.Answer{{Status: http.StatusCreated, Doc: "Created.", Body: wire.CreatedToken{}, Headers: location}},
	}
	opRevokeToken = &openapi.Operation{ID: "revokeToken", Tag: "identities", Summary: "Revoke a token on every node.", Answers: ok("The token.", wire.Token{})}
)

// tokenStates are the states by which tokens are listed.
var tokenStates = []string{"active", "ended", "all"}

func (h *tokenHandler) listTokens(c *httpserver.Call) error {
	q := c.ParseQuery(append([]string{"state"}, routes.WholeListParams...)...)
	f := identity.TokenFilter{State: q.OneOf("state", tokenStates...)}
	f.Search, f.Order, f.Limit, f.Cursor = routes.ReadWholeList(q, identity.TokenOrders)
	if q.Err() != nil {
		return q.Err()
	}
	page, err := h.tokens.Find(c.Context(), f)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, routes.WholeListPage(page, h.wireToken))
}

func (h *tokenHandler) getToken(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	t, err := h.tokens.ByID(c.Context(), id)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, h.wireToken(t))
}

func (h *tokenHandler) addToken(c *httpserver.Call) error {
	var request wire.TokenRequest
	if err := c.DecodeJSON(&request); err != nil {
		return err
	}
	made, err := h.tokens.Create(c.Context(), callerOf(c), identities.CreateToken{
		Name: request.Name, Scopes: request.Scopes, Expiry: expiryOf(request.ExpiresIn, request.ExpiresAt),
	})
	if err != nil {
		return err
	}
	return h.sendCreated(c, made)
}

func (h *tokenHandler) sendCreated(c *httpserver.Call, t *identities.CreatedToken) error {
	answer := wire.CreatedToken{Token: h.wireToken(t.Token), Secret: t.Secret, Warnings: notNil(t.Warnings)}
	if t.Replaces != nil {
		replaced := h.wireToken(t.Replaces)
		answer.Replaces = &replaced
	}
	c.Set(fiber.HeaderLocation, wire.PathTokens+"/"+t.ID)
	return c.SendJSON(http.StatusCreated, answer)
}

func (h *tokenHandler) changeToken(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	var patch wire.TokenPatch
	if err := c.DecodeJSON(&patch); err != nil {
		return err
	}
	var u identities.UpdateToken
	if patch.Name.Given {
		u.Name = &patch.Name.Value
	}
	if u.Expiry, err = expiryPatch(patch.ExpiresIn, patch.ExpiresAt); err != nil {
		return err
	}
	t, err := h.tokens.Update(c.Context(), callerOf(c), id, u)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, h.wireToken(t))
}

func (h *tokenHandler) rotateToken(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	var request wire.RotateRequest
	if err := c.DecodeOptional(&request); err != nil {
		return err
	}
	overlap := identity.DefaultOverlap
	if request.Overlap.Given {
		overlap = request.Overlap.Value.Std()
	}
	made, err := h.tokens.Rotate(c.Context(), callerOf(c), id, overlap)
	if err != nil {
		return err
	}
	return h.sendCreated(c, made)
}

func (h *tokenHandler) revokeToken(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	t, err := h.tokens.Revoke(c.Context(), callerOf(c), id)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, h.wireToken(t))
}

func (h *tokenHandler) wireToken(t *identity.Token) wire.Token { return fromToken(t, h.now()) }

// fromToken returns a token as the API shows it at an instant.
func fromToken(t *identity.Token, now time.Time) wire.Token {
	return wire.Token{
		ID: t.ID, Name: t.Name, Hint: t.Hint, Scopes: fromAccess(t.Scopes), Author: t.Author, Active: t.ActiveAt(now),
		CreatedAt: wire.At(t.Created), ExpiresAt: wire.At(t.Expires), LastUsedAt: wire.At(t.LastUsed), RevokedAt: wire.At(t.Revoked),
	}
}

// fromAccess returns accesses as the API spells them.
func fromAccess(all []identity.Access) []string {
	texts := make([]string, len(all))
	for i, a := range all {
		texts[i] = string(a)
	}
	return texts
}
