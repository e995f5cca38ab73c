package adminui

import (
	"context"
	"net/http"
	"regexp"

	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/fault"
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

// roleChoice is one role as forms offer it.
type roleChoice struct{ Value, Means string }

// RoleChoices returns the roles, each with what it lets somebody do.
func (p usersPage) RoleChoices() []roleChoice {
	return []roleChoice{
		{string(identity.Viewer), "sees everything"},
		{string(identity.Operator), "also blocks, exempts and resets"},
		{string(identity.Administrator), "also changes policies, tokens and users"},
	}
}

// usersHandler lists and changes users.
type usersHandler struct {
	*site.Site
	identity identity.Store
}

func (h *usersHandler) routes() []httpserver.Route {
	return []httpserver.Route{
		h.Get("/users", identity.Admin, h.showUsers),
		h.Post("/users", identity.Admin, h.addUser),
		h.Post("/users/:id/role", identity.Admin, h.setRole),
		h.Post("/users/:id/password", identity.Admin, h.setPassword),
		h.Post("/users/:id/disable", identity.Admin, h.disable(true)),
		h.Post("/users/:id/enable", identity.Admin, h.disable(false)),
		h.Post("/users/:id/delete", identity.Admin, h.deleteUser),
	}
}

var userToasts = map[string]string{
	"added": "The user can log in now.", "role": "The role is changed, and their sessions are ended.",
	"password": "The password is changed, and their sessions are ended.", "disabled": "The user is disabled and logged out.",
	"enabled": "The user can log in again.", "deleted": "The user is deleted.",
}

func (h *usersHandler) showUsers(c *httpserver.Call) error {
	page := usersPage{NewRole: string(identity.Operator), FieldErrors: form.FieldErrors{}, Edit: c.Query("edit")}
	return h.renderUsers(c, http.StatusOK, page)
}

func (h *usersHandler) renderUsers(c *httpserver.Call, status int, page usersPage) error {
	page.Frame = h.NewFrame(c, "Users", "/users")
	if text := userToasts[c.Query("done")]; text != "" && c.Method() == http.MethodGet {
		page.Toast = &site.Toast{Text: text}
	}
	ctx := c.Context()
	var err error
	if page.Users, err = h.identity.Users(ctx); err != nil {
		return err
	}
	return h.Render(c, status, "users", page)
}

var userName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._@+-]{0,63}$`)

func (h *usersHandler) addUser(c *httpserver.Call) error {
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	page := usersPage{NewRole: values.Get("role"), FieldErrors: form.FieldErrors{}}
	if page.Name, err = form.Line(values, "name", maxName); err != nil || !userName.MatchString(page.Name) {
		page.FieldErrors["name"] = "Write 1 to 64 letters, digits and . _ @ + -, beginning with a letter or digit."
	}
	role, hash := identity.Role(page.NewRole), ""
	if role.Access() == "" {
		page.FieldErrors["role"] = "Choose a role."
	}
	if hash, err = hashNew(values.Get("password")); err != nil {
		if err = page.FieldErrors.Add(err); err != nil {
			return err
		}
	}
	if len(page.FieldErrors) > 0 {
		return h.renderUsers(c, site.StatusInvalidForm, page)
	}
	ctx := c.Context()
	_, err = h.identity.AddUser(ctx, c.Actor(), identity.User{Name: page.Name, Role: role, PasswordHash: hash})
	if fault.Is(err, fault.Conflict) {
		page.FieldErrors["name"] = "There is a user of this name; choose another."
		return h.renderUsers(c, http.StatusConflict, page)
	}
	if err != nil {
		return err
	}
	return h.Redirect(c, "/users?done=added")
}

func hashNew(password string) (string, error) {
	if err := identity.CheckPassword(password); err != nil {
		return "", fault.Field("password", "The password %s.", err.Error())
	}
	return identity.HashPassword(password), nil
}

func (h *usersHandler) setRole(c *httpserver.Call) error {
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	role := identity.Role(values.Get("role"))
	return h.updateUser(c, "role", identity.UserUpdate{Role: &role})
}

func (h *usersHandler) setPassword(c *httpserver.Call) error {
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	hash, err := hashNew(values.Get("password"))
	if err != nil {
		page := usersPage{NewRole: string(identity.Operator), FieldErrors: form.FieldErrors{}, Edit: c.Params("id")}
		if err = page.FieldErrors.Add(err); err != nil {
			return err
		}
		page.FieldErrors["new-password"] = page.FieldErrors["password"]
		delete(page.FieldErrors, "password")
		return h.renderUsers(c, site.StatusInvalidForm, page)
	}
	return h.updateUser(c, "password", identity.UserUpdate{PasswordHash: &hash})
}

func (h *usersHandler) disable(disabled bool) httpserver.Handler {
	done := "enabled"
	if disabled {
		done = "disabled"
	}
	return func(c *httpserver.Call) error {
		return h.updateUser(c, done, identity.UserUpdate{Disabled: &disabled})
	}
}

// updateUser changes a user, which ends their sessions.
func (h *usersHandler) updateUser(c *httpserver.Call, done string, change identity.UserUpdate) error {
	return h.withUser(c, done, func(ctx context.Context, id string) error {
		_, err := h.identity.UpdateUser(ctx, c.Actor(), id, change)
		return err
	})
}

func (h *usersHandler) deleteUser(c *httpserver.Call) error {
	return h.withUser(c, "deleted", func(ctx context.Context, id string) error {
		return h.identity.DeleteUser(ctx, c.Actor(), id)
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
