package administration

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/admin/identities"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

type usersPage struct {
	site.Frame
	List        *site.List
	Users       []*identity.User
	Name        string
	NewRole     string
	FieldErrors form.FieldErrors
	Edit        string // the id of the user whose row is open
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
	return slices.ContainsFunc(p.Users, func(u *identity.User) bool { return u.Source() == identity.OpenID })
}

// usersHandler lists and changes users.
type usersHandler struct {
	*site.Site
	users *identities.Users
}

func (h *usersHandler) routes() []httpserver.Route {
	return []httpserver.Route{
		h.Get("/users", identity.Admin, h.showUsers),
		h.Post("/users", identity.Admin, h.addUser),
		h.Post("/users/:id/role", identity.Admin, h.setRole),
		h.Post("/users/:id/password", identity.Admin, h.setPassword),
		h.Post("/users/:id/disable", identity.Admin, h.disable(true)),
		h.Post("/users/:id/enable", identity.Admin, h.disable(false)),
		h.Post("/users/:id/totp/reset", identity.Admin, h.resetTOTP),
		h.Post("/users/:id/delete", identity.Admin, h.deleteUser),
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
	{Value: string(identity.UsersByName)}, {Value: string(identity.UsersByRole)}, {Value: string(identity.UsersByLastLogin), Descending: true},
	{Value: string(identity.UsersByCreated), Descending: true},
}

// userList returns the list that a request asks for.
func userList(c *httpserver.Call) (*site.List, error) { return site.ReadList(c, "/users", userOrders) }

func (h *usersHandler) showUsers(c *httpserver.Call) error {
	list, err := userList(c)
	if err != nil {
		return err
	}
	page := usersPage{NewRole: string(identity.Viewer), FieldErrors: form.FieldErrors{}, Edit: c.Query("edit")}
	return h.renderUsers(c, http.StatusOK, list, page)
}

func (h *usersHandler) renderUsers(c *httpserver.Call, status int, list *site.List, page usersPage) error {
	page.Frame, page.List = h.NewFrame(c, "Users", "/users"), list
	page.Toast = site.DoneToast(c, userToasts)
	var err error
	if page.Users, err = h.find(c.Context(), page.List, page.Edit); err != nil {
		return err
	}
	return h.Render(c, status, "users", page)
}

// find returns the users of the list. If the user with the id open is not among them, the user
// comes first.
func (h *usersHandler) find(ctx context.Context, list *site.List, open string) (all []*identity.User, err error) {
	err = list.Fill(func(cursor string) (int, int, string, error) {
		found, err := h.users.Find(ctx, identity.UserFilter{
			Search: list.Search(), Order: identity.UserOrder(list.Order()), Cursor: cursor, Limit: site.RowsPerPage,
		})
		all = found.Items
		return len(all), found.Total, found.Next, err
	})
	if err != nil || open == "" || slices.ContainsFunc(all, func(u *identity.User) bool { return u.ID == open }) {
		return all, err
	}
	u, err := h.users.ByID(ctx, open)
	switch {
	case fault.Is(err, fault.NotFound):
		return all, nil
	case err != nil:
		return nil, err
	}
	return append([]*identity.User{u}, all...), nil
}

// done redirects to the list, which says what was done.
func (h *usersHandler) done(c *httpserver.Call, list *site.List, done string) error {
	return h.Redirect(c, list.Here(list.Base, "done", done))
}

func (h *usersHandler) addUser(c *httpserver.Call) error {
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	list, err := userList(c)
	if err != nil {
		return err
	}
	page := usersPage{NewRole: values.Get("role"), FieldErrors: form.FieldErrors{}}
	page.Name = strings.TrimSpace(values.Get("name"))
	_, err = h.users.Create(c.Context(), site.CallerOf(c), identities.CreateUser{Name: page.Name, Role: page.NewRole, Password: values.Get("password")})
	if err != nil {
		status := httpserver.StatusOf(err)
		if err := page.FieldErrors.Add(err); err != nil {
			return err
		}
		return h.renderUsers(c, status, list, page)
	}
	return h.done(c, list, "added")
}

func (h *usersHandler) setRole(c *httpserver.Call) error {
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	role := values.Get("role")
	return h.updateUser(c, "role", identities.UpdateUser{Role: &role})
}

func (h *usersHandler) setPassword(c *httpserver.Call) error {
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	id, err := site.PathParam(c, "id")
	if err != nil {
		return err
	}
	list, err := userList(c)
	if err != nil {
		return err
	}
	if _, err := h.users.SetPassword(c.Context(), site.CallerOf(c), id, values.Get("password")); err != nil {
		page := usersPage{NewRole: string(identity.Viewer), FieldErrors: form.FieldErrors{}, Edit: id}
		if err := page.FieldErrors.Add(err); err != nil {
			return err
		}
		page.FieldErrors["new-password"] = page.FieldErrors["password"]
		delete(page.FieldErrors, "password")
		return h.renderUsers(c, site.StatusInvalidForm, list, page)
	}
	return h.done(c, list, "password")
}

func (h *usersHandler) disable(disabled bool) httpserver.Handler {
	done := "enabled"
	if disabled {
		done = "disabled"
	}
	return func(c *httpserver.Call) error {
		return h.updateUser(c, done, identities.UpdateUser{Disabled: &disabled})
	}
}

// updateUser changes a user, which ends their sessions. If nothing differs, it ends none.
func (h *usersHandler) updateUser(c *httpserver.Call, done string, change identities.UpdateUser) error {
	return h.withUser(c, func(ctx context.Context, id string) (string, error) {
		before, err := h.users.ByID(ctx, id)
		if err != nil {
			return "", err
		}
		after, err := h.users.Update(ctx, site.CallerOf(c), id, change)
		if err == nil && after.Revision == before.Revision {
			return "same", nil
		}
		return done, err
	})
}

func (h *usersHandler) resetTOTP(c *httpserver.Call) error {
	return h.withUser(c, func(ctx context.Context, id string) (string, error) {
		_, err := h.users.ResetTOTP(ctx, site.CallerOf(c), id)
		return "totp", err
	})
}

func (h *usersHandler) deleteUser(c *httpserver.Call) error {
	return h.withUser(c, func(ctx context.Context, id string) (string, error) {
		return "deleted", h.users.Delete(ctx, site.CallerOf(c), id)
	})
}

// withUser changes the user of a request. do returns the toast.
func (h *usersHandler) withUser(c *httpserver.Call, do func(context.Context, string) (done string, err error)) error {
	id, err := site.PathParam(c, "id")
	if err != nil {
		return err
	}
	list, err := userList(c)
	if err != nil {
		return err
	}
	done, err := do(c.Context(), id)
	if err != nil {
		return err
	}
	return h.done(c, list, done)
}
