package administration

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/admin/identities"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

type tokensPage struct {
	site.Frame
	List        *site.List
	Tokens      []tokenRow
	Name        string
	Scopes      map[string]bool // chosen in the form
	For         string
	Until       string
	FieldErrors form.FieldErrors
	Delete      string // the id of the token whose deletion is to be confirmed
	// Created is the new token, whose secret is shown once; nil for none.
	Created *identities.CreatedToken
	// IsListUnknown means that the tokens could not be read.
	IsListUnknown bool
}

type tokenRow struct {
	*identity.Token
	Active bool
}

// scopeChoice is one scope in the form.
type scopeChoice struct{ Value, Means string }

// ScopeChoices returns the scopes, each with a description.
func (p tokensPage) ScopeChoices() []scopeChoice {
	return []scopeChoice{
		{"check", "makes checks, and sees nothing else"},
		{"bouncer", "fetches the active blocks, as CrowdSec bouncers do"},
		{"read", "sees everything"},
		{"operate", "also blocks, exempts and resets"},
		{"admin", "also changes policies, tokens and users"},
	}
}

// Choices returns the lifetimes that the form offers.
func (p tokensPage) Choices() []form.Choice {
	return form.Choices("30d", "30 days", "90d", "90 days", "365d", "1 year", "good", "Permanent", "until", "Until (UTC)")
}

// newTokensPage returns the page with an empty form.
func newTokensPage(created *identities.CreatedToken) tokensPage {
	return tokensPage{For: "90d", Scopes: map[string]bool{"check": true}, FieldErrors: form.FieldErrors{}, Created: created}
}

// tokensHandler lists, creates, rotates and deletes tokens.
type tokensHandler struct {
	*site.Site
	tokens *identities.Tokens
}

func (h *tokensHandler) routes() []httpserver.Route {
	return []httpserver.Route{
		h.Get("/tokens", identity.Admin, h.showTokens),
		h.Post("/tokens", identity.Admin, h.addToken),
		h.Post("/tokens/:id/delete", identity.Admin, h.deleteToken),
		h.Post("/tokens/:id/rotate", identity.Admin, h.rotateToken),
	}
}

var tokenToasts = map[string]string{"deleted": "The token is deleted: it is refused from now on."}

// tokenOrders are the orders of the list, as their columns show them.
var tokenOrders = []site.Order{
	{Value: string(identity.TokensByName)}, {Value: string(identity.TokensByLastUsed), Descending: true}, {Value: string(identity.TokensByExpiry)},
}

// tokenList returns the list that a request asks for. Read it before a change: its error must not
// hide the secret of a new token.
func tokenList(c *httpserver.Call) (*site.List, error) {
	return site.ReadList(c, "/tokens", tokenOrders, "state")
}

func (h *tokensHandler) showTokens(c *httpserver.Call) error {
	list, err := tokenList(c)
	if err != nil {
		return err
	}
	page := newTokensPage(nil)
	page.Delete = c.Query("delete")
	return h.renderTokens(c, http.StatusOK, list, page)
}

func (h *tokensHandler) renderTokens(c *httpserver.Call, status int, list *site.List, page tokensPage) error {
	page.Frame, page.List = h.NewFrame(c, "Tokens", "/tokens"), list
	page.Toast = site.DoneToast(c, tokenToasts)
	all, err := h.find(c.Context(), list, page.Delete)
	switch {
	case err == nil:
	case page.Created != nil: // its secret must be shown anyway
		page.IsListUnknown = true
	default:
		return err
	}
	for _, t := range all {
		page.Tokens = append(page.Tokens, tokenRow{t, t.ActiveAt(h.Now())})
	}
	return h.Render(c, status, "tokens", page)
}

// find returns the tokens of the list. If the token with the id open is not among them, it comes
// first.
func (h *tokensHandler) find(ctx context.Context, list *site.List, open string) (all []*identity.Token, err error) {
	err = list.Fill(func(cursor string) (int, int, string, error) {
		found, err := h.tokens.Find(ctx, identity.TokenFilter{
			State: cmp.Or(list.Query.Get("state"), "active"), Search: list.Search(), Order: identity.TokenOrder(list.Order()),
			Cursor: cursor, Limit: site.RowsPerPage,
		})
		all = found.Items
		return len(all), found.Total, found.Next, err
	})
	if err != nil || open == "" || slices.ContainsFunc(all, func(t *identity.Token) bool { return t.ID == open }) {
		return all, err
	}
	t, err := h.tokens.ByID(ctx, open)
	switch {
	case fault.Is(err, fault.NotFound), err == nil && !t.ActiveAt(h.Now()):
		return all, nil
	case err != nil:
		return nil, err
	}
	return append([]*identity.Token{t}, all...), nil
}

func (h *tokensHandler) addToken(c *httpserver.Call) error {
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	list, err := tokenList(c)
	if err != nil {
		return err
	}
	page := tokensPage{For: values.Get("for"), Until: values.Get("until"), Scopes: map[string]bool{}, FieldErrors: form.FieldErrors{}}
	page.Name = strings.TrimSpace(values.Get("name"))
	for _, scope := range values["scopes"] {
		page.Scopes[scope] = true
	}
	expires, err := h.ParseExpiry(page.For, page.Until, h.Now())
	if err == nil {
		page.Created, err = h.tokens.Create(c.Context(), site.CallerOf(c), identities.CreateToken{
			Name: page.Name, Scopes: values["scopes"], Expiry: blocks.Expiry{Until: expires},
		})
	}
	if err != nil {
		status := httpserver.StatusOf(err)
		if err := page.FieldErrors.Add(err); err != nil {
			return err
		}
		return h.renderTokens(c, status, list, page)
	}
	return h.renderTokens(c, http.StatusOK, list, newTokensPage(page.Created))
}

func (h *tokensHandler) deleteToken(c *httpserver.Call) error {
	id, err := site.PathParam(c, "id")
	if err != nil {
		return err
	}
	list, err := tokenList(c)
	if err != nil {
		return err
	}
	if _, err := h.tokens.Revoke(c.Context(), site.CallerOf(c), id); err != nil {
		return err
	}
	return h.Redirect(c, list.Here(list.Base, "done", "deleted"))
}

// rotateToken creates a successor. The old token expires a day later.
func (h *tokensHandler) rotateToken(c *httpserver.Call) error {
	id, err := site.PathParam(c, "id")
	if err != nil {
		return err
	}
	list, err := tokenList(c)
	if err != nil {
		return err
	}
	created, err := h.tokens.Rotate(c.Context(), site.CallerOf(c), id, identity.DefaultOverlap)
	if err != nil {
		return err
	}
	return h.renderTokens(c, http.StatusOK, list, newTokensPage(created))
}
