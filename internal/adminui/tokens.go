package adminui

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

const maxName = 64

type tokensPage struct {
	site.Frame
	Tokens      []tokenRow
	Name        string
	Scopes      map[string]bool // chosen in the form
	For         string
	Until       string
	FieldErrors form.FieldErrors
	Secret      string // of the token that was just made, shown once
	Made        *identity.Token
	Replaces    *identity.Token // by the one just made, nil for none
}

type tokenRow struct {
	*identity.Token
	Active bool
}

// scopeChoice is one scope as the form offers it.
type scopeChoice struct{ Value, Means string }

// ScopeChoices returns the scopes, each with what it lets somebody do.
func (p tokensPage) ScopeChoices() []scopeChoice {
	return []scopeChoice{
		{"check", "asks whether a key may go on, and sees nothing else"},
		{"read", "sees everything"},
		{"operate", "also blocks, exempts and resets"},
		{"admin", "also changes policies, tokens and users"},
	}
}

// Choices returns the lengths of life that the form offers.
func (p tokensPage) Choices() []form.Choice {
	return form.Choices("30d", "30 days", "90d", "90 days", "365d", "1 year", "good", "For good", "until", "Until")
}

// tokensHandler lists, creates, rotates and revokes tokens.
type tokensHandler struct {
	*site.Site
	identity identity.Store
}

func (h *tokensHandler) routes() []httpserver.Route {
	return []httpserver.Route{
		h.Get("/tokens", identity.Admin, h.showTokens),
		h.Post("/tokens", identity.Admin, h.addToken),
		h.Post("/tokens/:id/revoke", identity.Admin, h.revokeToken),
		h.Post("/tokens/:id/rotate", identity.Admin, h.rotateToken),
	}
}

func (h *tokensHandler) showTokens(c *httpserver.Call) error {
	page := tokensPage{For: "90d", Scopes: map[string]bool{"check": true}, FieldErrors: form.FieldErrors{}}
	return h.renderTokens(c, http.StatusOK, page)
}

func (h *tokensHandler) renderTokens(c *httpserver.Call, status int, page tokensPage) error {
	page.Frame = h.NewFrame(c, "Tokens", "/tokens")
	if c.Method() == http.MethodGet && c.Query("done") == "revoked" {
		page.Toast = &site.Toast{Text: "The token is revoked: it is refused from now on."}
	}
	ctx := c.Context()
	all, err := h.identity.Tokens(ctx)
	if err != nil {
		return err
	}
	for _, t := range all {
		page.Tokens = append(page.Tokens, tokenRow{t, t.ActiveAt(h.Now())})
	}
	slices.SortStableFunc(page.Tokens, func(a, b tokenRow) int { return order(b.Active) - order(a.Active) })
	return h.Render(c, status, "tokens", page)
}

func order(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (h *tokensHandler) addToken(c *httpserver.Call) error {
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	page := tokensPage{For: values.Get("for"), Until: values.Get("until"), Scopes: map[string]bool{}, FieldErrors: form.FieldErrors{}}
	if page.Name, err = form.Line(values, "name", maxName); err != nil {
		if err = page.FieldErrors.Add(err); err != nil {
			return err
		}
	}
	if page.Name == "" {
		page.FieldErrors["name"] = "Give it a name that people recognise it by."
	}
	var scopes []identity.Access
	for _, text := range values["scope"] {
		scope := identity.Access(text)
		if !slices.Contains([]identity.Access{identity.Check, identity.Read, identity.Operate, identity.Admin}, scope) {
			return fault.Field("scope", "must be check, read, operate or admin")
		}
		if !page.Scopes[text] {
			scopes = append(scopes, scope)
		}
		page.Scopes[text] = true
	}
	if len(scopes) == 0 {
		page.FieldErrors["scope"] = "Choose at least one."
	}
	expires, err := h.ParseExpiry(page.For, page.Until, h.Now())
	if err != nil {
		if err = page.FieldErrors.Add(err); err != nil {
			return err
		}
	}
	if len(page.FieldErrors) > 0 {
		return h.renderTokens(c, site.StatusInvalidForm, page)
	}
	ctx := c.Context()
	page.Made, page.Secret, err = h.makeToken(ctx, c, page.Name, scopes, expires)
	if fault.Is(err, fault.Conflict) {
		page.FieldErrors["name"] = "There is a token of this name; choose another."
		return h.renderTokens(c, http.StatusConflict, page)
	}
	if err != nil {
		return err
	}
	return h.renderTokens(c, http.StatusOK, tokensPage{
		Made: page.Made, Secret: page.Secret, For: "90d", Scopes: map[string]bool{"check": true}, FieldErrors: form.FieldErrors{},
	})
}

func (h *tokensHandler) makeToken(ctx context.Context, c *httpserver.Call, name string, scopes []identity.Access, expires time.Time) (*identity.Token, string, error) {
	secret := identity.NewSecret(scopes)
	actor := c.Actor()
	made, err := h.identity.AddToken(ctx, actor, identity.Token{
		Name: name, Hint: secret.Hint, Hash: secret.Hash[:], Scopes: scopes, Author: actor.Name, Expires: expires,
	})
	return made, secret.Text, err
}

func (h *tokensHandler) revokeToken(c *httpserver.Call) error {
	id, err := site.PathParam(c, "id")
	if err != nil {
		return err
	}
	ctx := c.Context()
	if _, err := h.identity.RevokeToken(ctx, c.Actor(), id); err != nil {
		return err
	}
	return h.Redirect(c, "/tokens?done=revoked")
}

// rotateToken makes a token like another one, which ends a day later, both or
// neither.
func (h *tokensHandler) rotateToken(c *httpserver.Call) error {
	id, err := site.PathParam(c, "id")
	if err != nil {
		return err
	}
	ctx := c.Context()
	old, err := h.identity.FindTokenByID(ctx, id)
	if err != nil {
		return err
	}
	secret := identity.NewSecret(old.Scopes)
	page := tokensPage{For: "90d", Scopes: map[string]bool{"check": true}, FieldErrors: form.FieldErrors{}, Secret: secret.Text}
	if page.Made, page.Replaces, err = h.identity.RotateToken(ctx, c.Actor(), id, secret, identity.DefaultOverlap); err != nil {
		return err
	}
	return h.renderTokens(c, http.StatusOK, page)
}
