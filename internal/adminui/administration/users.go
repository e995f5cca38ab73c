package administration

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/admin/identities"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

type usersPage struct {
	site.Frame
	List        *site.List
	Users       []wire.User
	Form        wire.UserRequest
	FieldErrors form.FieldErrors
	Edit        string // the id of the user whose row is open
	// Invited is a new invitation, whose link is shown once; nil for none.
	Invited *wire.Invitation
	Link    string // of Invited
}

// roleChoice is one role in a form.
type roleChoice struct{ Value, Means string }

// RoleChoices returns the roles, each with a description.
func (p usersPage) RoleChoices() []roleChoice {
	return []roleChoice{
		{string(identity.Viewer), "sees everything"},
		{string(identity.Operator), "also blocks, exempts and resets"},
		{string(identity.Administrator), "also changes policies, tokens and users"},
	}
}

// HasOpenID reports whether any user shown comes from an OpenID provider.
func (p usersPage) HasOpenID() bool {
	return slices.ContainsFunc(p.Users, func(u wire.User) bool { return u.Source == string(identity.OpenID) })
}

// usersHandler lists and changes users.
type usersHandler struct {
	*site.Site
	users *identities.Users
	url   string // see Deps.PagesURL
}

func init() {
	add(func(s *site.Site, d Deps) handler { return &usersHandler{Site: s, users: d.Users, url: d.PagesURL} }, "login", "user")
}

func (h *usersHandler) routes() []httpserver.Route {
	return []httpserver.Route{
		h.InMenu(site.Administration, 8, "Users", h.Get("/users", identity.Admin, h.showUsers)),
		h.Post("/users", identity.Admin, h.addUser),
		h.Post("/users/:id/password", identity.Admin, h.setPassword),
		h.Post("/users/:id/invitation", identity.Admin, h.inviteUser),
		h.PostRow("/users/:id/role", identity.Admin, userList, h.setRole),
		h.PostRow("/users/:id/disable", identity.Admin, userList, h.disable),
		h.PostRow("/users/:id/enable", identity.Admin, userList, h.enable),
		h.PostRow("/users/:id/totp/reset", identity.Admin, userList, h.resetTOTP),
		h.PostRow("/users/:id/delete", identity.Admin, userList, h.deleteUser),
	}
}

var userToasts = map[string]string{
	"added": "The user can log in now.", "role": "The role is changed, and their sessions are ended.",
	"password": "The password is changed, and their sessions are ended.", "disabled": "The user is disabled and logged out.",
	"enabled": "The user can log in again.", "deleted": "The user is deleted.",
	"same": "Nothing was changed: that is the user’s role or state already. Their sessions go on.",
	"totp": "Two-factor authentication is reset, and their sessions are ended.",
}

// userOrders are the orders of the list, as their columns show them.
var userOrders = []site.Order{
	{Value: "name"}, {Value: "role"}, {Value: "last_login", Descending: true}, {Value: "created", Descending: true},
}

// userList returns the list that a request asks for.
func userList(c *httpserver.Call) (*site.List, error) { return site.ReadList(c, "/users", userOrders) }

func (h *usersHandler) showUsers(c *httpserver.Call) error {
	list, err := userList(c)
	if err != nil {
		return err
	}
	return h.renderUsers(c, http.StatusOK, list, newUsersPage(c.Query("edit")))
}

// newUsersPage returns the page with an empty form. The row of the user with the id edit is open.
func newUsersPage(edit string) usersPage {
	return usersPage{Form: wire.UserRequest{Role: string(identity.Viewer)}, FieldErrors: form.FieldErrors{}, Edit: edit}
}

func (h *usersHandler) renderUsers(c *httpserver.Call, status int, list *site.List, page usersPage) (err error) {
	page.Frame, page.List = h.NewFrame(c, "Users", "/users"), list
	page.Toast = site.DoneToast(c, userToasts)
	ctx, by := c.Context(), site.CallerOf(c)
	page.Users, err = site.Rows(list, page.Edit, func(cursor string) (wire.Page[wire.User], error) {
		return h.users.Find(ctx, by, wire.UserList{
			Search: list.Search(), Order: list.Order(), WholeList: wire.WholeList{Cursor: cursor, Limit: site.RowsPerPage},
		})
	}, func(open wire.ByID) (wire.User, error) { return h.users.ByID(ctx, by, open) })
	if err != nil {
		return err
	}
	return h.Render(c, status, "users", page)
}

func (h *usersHandler) addUser(c *httpserver.Call) error {
	values := form.Values(c)
	list, err := userList(c)
	if err != nil {
		return err
	}
	page := usersPage{FieldErrors: form.FieldErrors{}}
	page.Form = wire.UserRequest{Name: strings.TrimSpace(values.Get("name")), Role: values.Get("role"), Password: values.Get("password")}
	user, err := h.users.Create(c.Context(), site.CallerOf(c), page.Form)
	if err != nil {
		return page.FieldErrors.Again(err, func(status int) error { return h.renderUsers(c, status, list, page) })
	}
	if page.Form.Password == "" {
		return h.showInvited(c, list, user.ID)
	}
	return h.Redirect(c, list.Here(list.Base, "done", "added"))
}

func (h *usersHandler) inviteUser(c *httpserver.Call) error {
	list, err := userList(c)
	if err != nil {
		return err
	}
	return h.showInvited(c, list, c.Params("id"))
}

// showInvited invites a user and shows the link above the list.
func (h *usersHandler) showInvited(c *httpserver.Call, list *site.List, id string) error {
	made, err := h.users.Invite(c.Context(), site.CallerOf(c), wire.InvitationRequest{ID: id})
	if err != nil {
		return err
	}
	page := newUsersPage("")
	page.Invited, page.Link = &made, h.baseURL(c)+made.Path
	return h.renderUsers(c, http.StatusOK, list, page)
}

// baseURL returns the URL of these pages for other people: that of the settings, or else the one by which
// the browser that sent a form reaches them, which may be that of a proxy with TLS.
func (h *usersHandler) baseURL(c *httpserver.Call) string {
	if origin := c.Get(fiber.HeaderOrigin); h.url == "" && strings.Contains(origin, "://") {
		return origin
	}
	return cmp.Or(h.url, c.BaseURL())
}

func (h *usersHandler) setPassword(c *httpserver.Call) error {
	id := c.Params("id")
	list, err := userList(c)
	if err != nil {
		return err
	}
	if _, err := h.users.SetPassword(c.Context(), site.CallerOf(c), wire.PasswordRequest{ID: id, Password: form.Values(c).Get("password")}); err != nil {
		page := newUsersPage(id)
		return page.FieldErrors.Again(err, func(int) error {
			page.FieldErrors["new-password"] = page.FieldErrors["password"]
			delete(page.FieldErrors, "password")
			return h.renderUsers(c, site.StatusInvalidForm, list, page)
		})
	}
	return h.Redirect(c, list.Here(list.Base, "done", "password"))
}

func (h *usersHandler) setRole(ctx context.Context, by admin.Caller, id string, values url.Values) (string, error) {
	return h.update(ctx, by, "role", wire.UserPatch{ID: id, Role: wire.To(values.Get("role"))})
}

func (h *usersHandler) disable(ctx context.Context, by admin.Caller, id string, _ url.Values) (string, error) {
	return h.update(ctx, by, "disabled", wire.UserPatch{ID: id, Disabled: wire.To(true)})
}

func (h *usersHandler) enable(ctx context.Context, by admin.Caller, id string, _ url.Values) (string, error) {
	return h.update(ctx, by, "enabled", wire.UserPatch{ID: id, Disabled: wire.To(false)})
}

// update changes a user, which ends their sessions. If nothing differs, it ends none.
func (h *usersHandler) update(ctx context.Context, by admin.Caller, done string, change wire.UserPatch) (string, error) {
	before, err := h.users.ByID(ctx, by, wire.ByID{ID: change.ID})
	if err != nil {
		return "", err
	}
	after, err := h.users.Update(ctx, by, change)
	if after.Role == before.Role && after.Disabled == before.Disabled {
		done = "same"
	}
	return done, err
}

func (h *usersHandler) resetTOTP(ctx context.Context, by admin.Caller, id string, _ url.Values) (string, error) {
	_, err := h.users.ResetTOTP(ctx, by, wire.ByID{ID: id})
	return "totp", err
}

func (h *usersHandler) deleteUser(ctx context.Context, by admin.Caller, id string, _ url.Values) (string, error) {
	_, err := h.users.Delete(ctx, by, wire.ByID{ID: id})
	return "deleted", err
}
