package adminui

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/api"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
)

const maxName = 64

type tokensPage struct {
	Frame
	Tokens   []tokenRow
	Name     string
	Scopes   map[string]bool // chosen in the form
	For      string
	Until    string
	Mistakes mistakes
	Secret   string // of the token that was just made, shown once
	Made     *identity.Token
	Replaces *identity.Token // by the one just made, nil for none
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
func (p tokensPage) Choices() []choice {
	return []choice{{"30d", "30 days"}, {"90d", "90 days"}, {"365d", "1 year"}, {"good", "For good"}, {"until", "Until"}}
}

func (u *UI) tokenRoutes() []api.Route {
	return []api.Route{
		u.get("/tokens", identity.Admin, u.showTokens),
		u.post("/tokens", identity.Admin, u.addToken),
		u.post("/tokens/:id/revoke", identity.Admin, u.revokeToken),
		u.post("/tokens/:id/rotate", identity.Admin, u.rotateToken),
	}
}

func (u *UI) showTokens(c *api.Call) error {
	page := tokensPage{For: "90d", Scopes: map[string]bool{"check": true}, Mistakes: mistakes{}}
	return u.renderTokens(c, http.StatusOK, page)
}

func (u *UI) renderTokens(c *api.Call, status int, page tokensPage) error {
	page.Frame = u.frame(c, "Tokens", "/tokens")
	if c.Method() == http.MethodGet && c.Query("done") == "revoked" {
		page.Toast = &Toast{Text: "The token is revoked: it is refused from now on."}
	}
	ctx, cancel := c.StoreContext()
	defer cancel()
	all, err := u.Identity.Tokens(ctx)
	if err != nil {
		return err
	}
	for _, t := range all {
		page.Tokens = append(page.Tokens, tokenRow{t, t.ActiveAt(u.Now())})
	}
	slices.SortStableFunc(page.Tokens, func(a, b tokenRow) int { return order(b.Active) - order(a.Active) })
	return u.render(c, status, "tokens", page)
}

func order(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (u *UI) addToken(c *api.Call) error {
	values, err := form(c)
	if err != nil {
		return err
	}
	page := tokensPage{For: values.Get("for"), Until: values.Get("until"), Scopes: map[string]bool{}, Mistakes: mistakes{}}
	if page.Name, err = line(values, "name", maxName); err != nil {
		if err = page.Mistakes.note(err); err != nil {
			return err
		}
	}
	if page.Name == "" {
		page.Mistakes["name"] = "Give it a name that people recognise it by."
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
		page.Mistakes["scope"] = "Choose at least one."
	}
	expires, err := u.endOf(page.For, page.Until, u.Now())
	if err != nil {
		if err = page.Mistakes.note(err); err != nil {
			return err
		}
	}
	if len(page.Mistakes) > 0 {
		return u.renderTokens(c, statusOfForm, page)
	}
	ctx, cancel := c.StoreContext()
	defer cancel()
	page.Made, page.Secret, err = u.makeToken(ctx, c, page.Name, scopes, expires)
	if fault.Is(err, fault.Conflict) {
		page.Mistakes["name"] = "There is a token of this name; choose another."
		return u.renderTokens(c, http.StatusConflict, page)
	}
	if err != nil {
		return err
	}
	return u.renderTokens(c, http.StatusOK, tokensPage{
		Made: page.Made, Secret: page.Secret, For: "90d", Scopes: map[string]bool{"check": true}, Mistakes: mistakes{},
	})
}

func (u *UI) makeToken(ctx context.Context, c *api.Call, name string, scopes []identity.Access, expires time.Time) (*identity.Token, string, error) {
	secret := identity.NewSecret(scopes)
	actor := c.Actor()
	made, err := u.Identity.AddToken(ctx, actor, identity.Token{
		Name: name, Hint: secret.Hint, Hash: secret.Hash[:], Scopes: scopes, Author: actor.Name, Expires: expires,
	})
	return made, secret.Text, err
}

func (u *UI) revokeToken(c *api.Call) error {
	id, err := param(c, "id")
	if err != nil {
		return err
	}
	ctx, cancel := c.StoreContext()
	defer cancel()
	if _, err := u.Identity.RevokeToken(ctx, c.Actor(), id); err != nil {
		return err
	}
	return u.seeOther(c, "/tokens?done=revoked")
}

// rotateToken makes a token like another one, which ends a day later, both or
// neither.
func (u *UI) rotateToken(c *api.Call) error {
	id, err := param(c, "id")
	if err != nil {
		return err
	}
	ctx, cancel := c.StoreContext()
	defer cancel()
	old, err := u.Identity.FindTokenByID(ctx, id)
	if err != nil {
		return err
	}
	secret := identity.NewSecret(old.Scopes)
	page := tokensPage{For: "90d", Scopes: map[string]bool{"check": true}, Mistakes: mistakes{}, Secret: secret.Text}
	if page.Made, page.Replaces, err = u.Identity.RotateToken(ctx, c.Actor(), id, secret, identity.DefaultOverlap); err != nil {
		return err
	}
	return u.renderTokens(c, http.StatusOK, page)
}
