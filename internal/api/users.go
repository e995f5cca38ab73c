package api

import (
	"net/http"
	"regexp"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

func (s *API) listUsers(c *httpserver.Call) error {
	if err := c.ParseQuery().Err(); err != nil {
		return err
	}
	ctx := c.Context()
	all, err := s.Identity.Users(ctx)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, wholePage(all, fromUser))
}

func (s *API) getUser(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	ctx := c.Context()
	u, err := s.Identity.FindUserByID(ctx, id)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, fromUser(u))
}

var userName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._@+-]{0,63}$`)

func (s *API) addUser(c *httpserver.Call) error {
	var request wire.UserRequest
	if err := c.DecodeJSON(&request); err != nil {
		return err
	}
	if !userName.MatchString(request.Name) {
		return fault.Field("name", "must be 1 to 64 letters, digits and . _ @ + -, beginning with a letter or digit")
	}
	role, err := parseRole(request.Role)
	if err != nil {
		return err
	}
	hash, err := hashNew(request.Password)
	if err != nil {
		return err
	}
	ctx := c.Context()
	u, err := s.Identity.AddUser(ctx, c.Actor(), identity.User{Name: request.Name, Role: role, PasswordHash: hash})
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderLocation, wire.PathUsers+"/"+u.ID)
	return c.SendJSON(http.StatusCreated, fromUser(u))
}

func parseRole(text string) (identity.Role, error) {
	role := identity.Role(text)
	if role.Access() == "" {
		return "", fault.Field("role", "must be viewer, operator or admin")
	}
	return role, nil
}

func hashNew(password string) (string, error) {
	if err := identity.CheckPassword(password); err != nil {
		return "", fault.Field("password", "%s", err.Error())
	}
	return identity.HashPassword(password), nil
}

// changeUser also ends the sessions of the user.
func (s *API) changeUser(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	var patch wire.UserPatch
	if err := c.DecodeJSON(&patch); err != nil {
		return err
	}
	var u identity.UserUpdate
	if patch.Role.Given {
		role, err := parseRole(patch.Role.Value)
		if err != nil {
			return err
		}
		u.Role = &role
	}
	if patch.Disabled.Given {
		u.Disabled = &patch.Disabled.Value
	}
	if u.Role == nil && u.Disabled == nil {
		return fault.New(fault.Invalid, "Nothing to change: send role or disabled.")
	}
	return s.updateUser(c, id, u)
}

func (s *API) setPassword(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	var request wire.PasswordRequest
	if err := c.DecodeJSON(&request); err != nil {
		return err
	}
	hash, err := hashNew(request.Password)
	if err != nil {
		return err
	}
	return s.updateUser(c, id, identity.UserUpdate{PasswordHash: &hash})
}

func (s *API) updateUser(c *httpserver.Call, id string, u identity.UserUpdate) error {
	ctx := c.Context()
	changed, err := s.Identity.UpdateUser(ctx, c.Actor(), id, u)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, fromUser(changed))
}

func (s *API) deleteUser(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	ctx := c.Context()
	if err := s.Identity.DeleteUser(ctx, c.Actor(), id); err != nil {
		return err
	}
	return c.SendStatus(http.StatusNoContent)
}
