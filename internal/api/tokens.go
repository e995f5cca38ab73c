package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

// maxName is the longest name of a token or a user, in bytes.
const maxName = 64

func (s *API) wireToken(t *identity.Token) wire.Token { return fromToken(t, s.Now()) }

func (s *API) listTokens(c *httpserver.Call) error {
	if err := c.ParseQuery().Err(); err != nil {
		return err
	}
	ctx := c.Context()
	all, err := s.Identity.Tokens(ctx)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, wholePage(all, s.wireToken))
}

func (s *API) getToken(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	ctx := c.Context()
	t, err := s.Identity.FindTokenByID(ctx, id)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, s.wireToken(t))
}

func (s *API) addToken(c *httpserver.Call) error {
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
	expires, err := s.end(request.ExpiresIn, request.ExpiresAt)
	if err != nil {
		return err
	}
	ctx := c.Context()
	made, secret, err := s.makeToken(ctx, c, request.Name, scopes, expires)
	if err != nil {
		return err
	}
	return sendCreatedToken(c, wire.CreatedToken{Token: s.wireToken(made), Secret: secret})
}

func (s *API) makeToken(ctx context.Context, c *httpserver.Call, name string, scopes []identity.Access, expires time.Time) (*identity.Token, string, error) {
	secret := identity.NewSecret(scopes)
	actor := c.Actor()
	made, err := s.Identity.AddToken(ctx, actor, identity.Token{
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

func (s *API) changeToken(c *httpserver.Call) error {
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
	if u.Expires, err = s.changedEnd(patch.ExpiresIn, patch.ExpiresAt); err != nil {
		return err
	}
	if u.Name == nil && u.Expires == nil {
		return fault.New(fault.Invalid, "Nothing to change: send name, expires_in or expires_at.")
	}
	ctx := c.Context()
	t, err := s.Identity.UpdateToken(ctx, c.Actor(), id, u)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, s.wireToken(t))
}

// rotateToken makes the successor and ends the token after the overlap, both or
// neither.
func (s *API) rotateToken(c *httpserver.Call) error {
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
	old, err := s.Identity.FindTokenByID(ctx, id)
	if err != nil {
		return err
	}
	secret := identity.NewSecret(old.Scopes)
	made, ended, err := s.Identity.RotateToken(ctx, c.Actor(), id, secret, overlap)
	if err != nil {
		return err
	}
	replaced := s.wireToken(ended)
	return sendCreatedToken(c, wire.CreatedToken{Token: s.wireToken(made), Secret: secret.Text, Replaces: &replaced})
}

func (s *API) revokeToken(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	ctx := c.Context()
	t, err := s.Identity.RevokeToken(ctx, c.Actor(), id)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, s.wireToken(t))
}
