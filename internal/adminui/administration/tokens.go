package administration

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/admin/identities"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

type tokensPage struct {
	site.Frame
	List        *site.List
	Tokens      []wire.Token
	Form        wire.TokenRequest
	For, Until  string // of the form
	FieldErrors form.FieldErrors
	Delete      string // the id of the token whose deletion is to be confirmed
	// Created is the new token, whose secret is shown once; nil for none.
	Created *wire.CreatedToken
	// IsListUnknown means that the tokens could not be read.
	IsListUnknown bool
}

// Chosen reports whether a scope is chosen in the form.
func (p tokensPage) Chosen(scope string) bool { return slices.Contains(p.Form.Scopes, scope) }

// scopeChoice is one scope in the form.
type scopeChoice struct{ Value, Means string }

// ScopeChoices returns the scopes, each with a description.
func (p tokensPage) ScopeChoices() []scopeChoice {
	return []scopeChoice{
		{"check", "makes checks, and sees nothing else"},
		{"bouncer", "fetches the active blocks, as CrowdSec bouncers do"},
		{"captcha", "also fetches blocks that challenge, for a bouncer where captchas are set up"},
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
func newTokensPage() tokensPage {
	return tokensPage{For: "90d", FieldErrors: form.FieldErrors{}}
}

// tokensHandler lists, creates, rotates and deletes tokens.
type tokensHandler struct {
	*site.Site
	tokens *identities.Tokens
}

func init() {
	add(func(s *site.Site, d Deps) handler { return &tokensHandler{Site: s, tokens: d.Tokens} }, "token")
}

func (h *tokensHandler) routes() []httpserver.Route {
	return []httpserver.Route{
		h.InMenu(site.Administration, 7, "Tokens", h.Get("/tokens", identity.Admin, h.showTokens)),
		h.Post("/tokens", identity.Admin, h.addToken),
		h.PostRow("/tokens/:id/delete", identity.Admin, tokenList, h.deleteToken),
		h.Post("/tokens/:id/rotate", identity.Admin, h.rotateToken),
	}
}

var tokenToasts = map[string]string{"deleted": "The token is deleted: it is refused from now on."}

// tokenOrders are the orders of the list, as their columns show them.
var tokenOrders = []site.Order{
	{Value: "name"}, {Value: "last_used", Descending: true}, {Value: "expiry"},
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
	page := newTokensPage()
	page.Delete = c.Query("delete")
	return h.renderTokens(c, http.StatusOK, list, page)
}

func (h *tokensHandler) renderTokens(c *httpserver.Call, status int, list *site.List, page tokensPage) (err error) {
	page.Frame, page.List = h.NewFrame(c, "Tokens", "/tokens"), list
	page.Toast = site.DoneToast(c, tokenToasts)
	ctx, by := c.Context(), site.CallerOf(c)
	page.Tokens, err = site.Rows(list, page.Delete, func(cursor string) (wire.Page[wire.Token], error) {
		return h.tokens.Find(ctx, by, wire.TokenList{
			State: cmp.Or(list.Query.Get("state"), "active"), Search: list.Search(), Order: list.Order(),
			WholeList: wire.WholeList{Cursor: cursor, Limit: site.RowsPerPage},
		})
	}, func(open wire.ByID) (wire.Token, error) {
		t, err := h.tokens.ByID(ctx, by, open)
		if err == nil && !t.Active {
			err = fault.New(fault.NotFound, "It has ended.")
		}
		return t, err
	})
	if err != nil && page.Created == nil { // the secret of a new token must be shown anyway
		return err
	}
	page.IsListUnknown = err != nil
	return h.Render(c, status, "tokens", page)
}

func (h *tokensHandler) addToken(c *httpserver.Call) error {
	values := form.Values(c)
	list, err := tokenList(c)
	if err != nil {
		return err
	}
	page := tokensPage{For: values.Get("for"), Until: values.Get("until"), FieldErrors: form.FieldErrors{}}
	page.Form = wire.TokenRequest{Name: strings.TrimSpace(values.Get("name")), Scopes: values["scopes"]}
	page.Form.ExpiresAt.Time, err = h.ParseExpiry(page.For, page.Until, h.Now())
	var created wire.CreatedToken
	if err == nil {
		created, err = h.tokens.Create(c.Context(), site.CallerOf(c), page.Form)
	}
	if err != nil {
		return page.FieldErrors.Again(err, func(status int) error { return h.renderTokens(c, status, list, page) })
	}
	return h.showCreated(c, list, created)
}

// showCreated shows a new token with its secret, above the list.
func (h *tokensHandler) showCreated(c *httpserver.Call, list *site.List, created wire.CreatedToken) error {
	page := newTokensPage()
	page.Created = &created
	return h.renderTokens(c, http.StatusOK, list, page)
}

func (h *tokensHandler) deleteToken(ctx context.Context, by admin.Caller, id string, _ url.Values) (string, error) {
	_, err := h.tokens.Revoke(ctx, by, wire.ByID{ID: id})
	return "deleted", err
}

// rotateToken creates a successor. The old token expires a day later.
func (h *tokensHandler) rotateToken(c *httpserver.Call) error {
	list, err := tokenList(c)
	if err != nil {
		return err
	}
	created, err := h.tokens.Rotate(c.Context(), site.CallerOf(c), wire.RotateRequest{ID: c.Params("id")})
	if err != nil {
		return err
	}
	return h.showCreated(c, list, created)
}
