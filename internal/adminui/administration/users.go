package administration

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/admin/identities"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

type usersPage struct {
	site.Frame
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

// HasOpenID reports whether any user comes from an OpenID provider.
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
	"totp": "Two-factor authentication is reset, and their sessions are ended.",
}

func (h *usersHandler) showUsers(c *httpserver.Call) error {
	page := usersPage{NewRole: string(identity.Viewer), FieldErrors: form.FieldErrors{}, Edit: c.Query("edit")}
	return h.renderUsers(c, http.StatusOK, page)
}

func (h *usersHandler) renderUsers(c *httpserver.Call, status int, page usersPage) error {
	page.Frame = h.NewFrame(c, "Users", "/users")
	page.Toast = site.DoneToast(c, userToasts)
	ctx := c.Context()
	var err error
	if page.Users, err = h.users.List(ctx); err != nil {
		return err
	}
	return h.Render(c, status, "users", page)
}

func (h *usersHandler) addUser(c *httpserver.Call) error {
	values, err := form.Read(c)
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
		return h.renderUsers(c, status, page)
	}
	return h.Redirect(c, "/users?done=added")
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
	if _, err := h.users.SetPassword(c.Context(), site.CallerOf(c), id, values.Get("password")); err != nil {
		page := usersPage{NewRole: string(identity.Viewer), FieldErrors: form.FieldErrors{}, Edit: id}
		if err := page.FieldErrors.Add(err); err != nil {
			return err
		}
		page.FieldErrors["new-password"] = page.FieldErrors["password"]
		delete(page.FieldErrors, "password")
		return h.renderUsers(c, site.StatusInvalidForm, page)
	}
	return h.Redirect(c, "/users?done=password")
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

// updateUser changes a user, which ends their sessions.
func (h *usersHandler) updateUser(c *httpserver.Call, done string, change identities.UpdateUser) error {
	return h.withUser(c, done, func(ctx context.Context, id string) error {
		_, err := h.users.Update(ctx, site.CallerOf(c), id, change)
		return err
	})
}

func (h *usersHandler) resetTOTP(c *httpserver.Call) error {
	return h.withUser(c, "totp", func(ctx context.Context, id string) error {
		_, err := h.users.ResetTOTP(ctx, site.CallerOf(c), id)
		return err
	})
}

func (h *usersHandler) deleteUser(c *httpserver.Call) error {
	return h.withUser(c, "deleted", func(ctx context.Context, id string) error {
		return h.users.Delete(ctx, site.CallerOf(c), id)
	})
}

func (h *usersHandler) withUser(c *httpserver.Call, done string, do func(context.Context, string) error) error {
	id, err := site.PathParam(c, "id")
	if err != nil {
		return err
	}
	ctx := c.Context()
	if err := do(ctx, id); err != nil {
		return err
	}
	return h.Redirect(c, "/users?done="+done)
}
