package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

// tokenHandler serves the API tokens.
type tokenHandler struct {
	common
	tokens identity.Store
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
	opListTokens  = &openapi.Operation{ID: "listTokens", Tag: "identities", Summary: "List the tokens, ended ones included.", Answers: ok("All of them.", wire.Page[wire.Token]{})}
	opAddToken    = &openapi.Operation{ID: "addToken", Tag: "identities", Summary: "Make a token; its secret is shown this once.", Body: wire.TokenRequest{}, Answers: []openapi.Answer{{Status: http.StatusCreated, Doc: "Created.", Body: wire.CreatedToken{}}}}
	opGetToken    = &openapi.Operation{ID: "getToken", Tag: "identities", Summary: "Show a token.", Answers: ok("The token.", wire.Token{})}
	opChangeToken = &openapi.Operation{ID: "changeToken", Tag: "identities", Summary: "Change a token's name or end.", Body: wire.TokenPatch{}, Answers: ok("The token.", wire.Token{})}
	opRotateToken = &openapi.Operation{
		ID: "rotateToken", Tag: "identities", Summary: "Replace a token by a new one; the old one goes on for the overlap.",
		Body: wire.RotateRequest{}, BodyOptional: true, Answers: []openapi.Answer{{Status: http.StatusCreated, Doc: "Created.", Body: wire.CreatedToken{}}},
	}
	opRevokeToken = &openapi.Operation{ID: "revokeToken", Tag: "identities", Summary: "Revoke a token on every node.", Answers: ok("The token.", wire.Token{})}
)

// maxName is the longest name of a token or a user, in bytes.
const maxName = 64

func (h *tokenHandler) listTokens(c *httpserver.Call) error {
	if err := c.ParseQuery().Err(); err != nil {
		return err
	}
	all, err := h.tokens.Tokens(c.Context())
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, singlePage(all, h.wireToken))
}

func (h *tokenHandler) getToken(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	t, err := h.tokens.FindTokenByID(c.Context(), id)
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
	if err := checkName(request.Name); err != nil {
		return err
	}
	scopes, err := parseScopes(request.Scopes)
	if err != nil {
		return err
	}
	expires, err := h.expiry(request.ExpiresIn, request.ExpiresAt)
	if err != nil {
		return err
	}
	made, secret, err := h.makeToken(c.Context(), c, request.Name, scopes, expires)
	if err != nil {
		return err
	}
	return sendCreatedToken(c, wire.CreatedToken{Token: h.wireToken(made), Secret: secret})
}

func (h *tokenHandler) makeToken(ctx context.Context, c *httpserver.Call, name string, scopes []identity.Access, expires time.Time) (*identity.Token, string, error) {
	secret := identity.NewSecret(scopes)
	actor := c.Actor()
	made, err := h.tokens.AddToken(ctx, actor, identity.Token{
		Name: name, Hint: secret.Hint, Hash: secret.Hash[:], Scopes: scopes, Author: actor.Name, Expires: expires,
	})
	return made, secret.Text, err
}

func sendCreatedToken(c *httpserver.Call, t wire.CreatedToken) error {
	c.Set(fiber.HeaderLocation, wire.PathTokens+"/"+t.ID)
	return c.SendJSON(http.StatusCreated, t)
}

func checkName(name string) error {
	if name == "" {
		return fault.Field("name", "is missing; send 1 to %d bytes that people recognise it by", maxName)
	}
	if name != strings.TrimSpace(name) {
		return fault.Field("name", "begins or ends with a space; remove it")
	}
	return httpserver.CheckLine("name", name, maxName)
}

func parseScopes(texts []string) ([]identity.Access, error) {
	if len(texts) == 0 {
		return nil, fault.Field("scopes", "is empty; name at least one of check, read, operate and admin")
	}
	var scopes []identity.Access
	for i, text := range texts {
		field := "scopes[" + strconv.Itoa(i) + "]"
		scope := identity.Access(text)
		switch {
		case !slices.Contains([]identity.Access{identity.Check, identity.Read, identity.Operate, identity.Admin}, scope):
			return nil, fault.Field(field, "must be check, read, operate or admin")
		case slices.Contains(scopes, scope):
			return nil, fault.Field(field, "stands twice; name each scope once")
		}
		scopes = append(scopes, scope)
	}
	return scopes, nil
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
	var u identity.TokenUpdate
	if patch.Name.Given {
		if err := checkName(patch.Name.Value); err != nil {
			return err
		}
		u.Name = &patch.Name.Value
	}
	if u.Expires, err = h.expiryChange(patch.ExpiresIn, patch.ExpiresAt); err != nil {
		return err
	}
	if u.Name == nil && u.Expires == nil {
		return fault.New(fault.Invalid, "Nothing to change: send name, expires_in or expires_at.")
	}
	t, err := h.tokens.UpdateToken(c.Context(), c.Actor(), id, u)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, h.wireToken(t))
}

// rotateToken makes the successor and ends the token after the overlap, both or
// neither.
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
	ctx := c.Context()
	old, err := h.tokens.FindTokenByID(ctx, id)
	if err != nil {
		return err
	}
	secret := identity.NewSecret(old.Scopes)
	made, ended, err := h.tokens.RotateToken(ctx, c.Actor(), id, secret, overlap)
	if err != nil {
		return err
	}
	replaced := h.wireToken(ended)
	return sendCreatedToken(c, wire.CreatedToken{Token: h.wireToken(made), Secret: secret.Text, Replaces: &replaced})
}

func (h *tokenHandler) revokeToken(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	t, err := h.tokens.RevokeToken(c.Context(), c.Actor(), id)
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
