package api

import (
	"net/http"
	"slices"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/admin/identities"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

// userHandler serves the users.
type userHandler struct {
	users *identities.Users
}

func (h *userHandler) routes() []route {
	const user = wire.PathUsers + "/:id"
	return []route{
		onAdmin(get, wire.PathUsers, identity.Admin, h.listUsers, opListUsers),
		onAdmin(post, wire.PathUsers, identity.Admin, h.addUser, opAddUser),
		onAdmin(get, user, identity.Admin, h.getUser, opGetUser),
		onAdmin(patch, user, identity.Admin, h.changeUser, opChangeUser),
		onAdmin(put, user+"/password", identity.Admin, h.setPassword, opSetPassword),
		onAdmin(del, user+"/totp", identity.Admin, h.resetTOTP, opResetTOTP),
		onAdmin(del, user, identity.Admin, h.deleteUser, opDeleteUser),
		onAdmin(get, wire.PathWhoami, identity.Read, handleWhoami, opWhoami),
	}
}

var (
	opListUsers = &openapi.Operation{
		ID: "listUsers", Tag: "identities", Summary: "List the users, all or a page.",
		Query: routes.WholeList("Only users whose name contains this text, case-insensitive.",
			"name, also if omitted; role: admin, operator, viewer; last_login: the last login first; created: the newest first.", identity.UserOrders),
		Answers: ok("The users.", wire.Page[wire.User]{}),
	}
	opAddUser     = &openapi.Operation{ID: "addUser", Tag: "identities", Summary: "Create a user.", Body: wire.UserRequest{}, Answers: []openapi.Answer{{Status: http.StatusCreated, Doc: "Created.", Body: wire.User{}, Headers: location}}}
	opGetUser     = &openapi.Operation{ID: "getUser", Tag: "identities", Summary: "Show a user.", Answers: ok("The user.", wire.User{})}
	opChangeUser  = &openapi.Operation{ID: "changeUser", Tag: "identities", Summary: "Change a user's role, or disable or enable the user.", Body: wire.UserPatch{}, Answers: ok("The user.", wire.User{})}
	opSetPassword = &openapi.Operation{ID: "setPassword", Tag: "identities", Summary: "Set a user's password and end the user's sessions.", Body: wire.PasswordRequest{}, Answers: ok("The user.", wire.User{})}
	opResetTOTP   = &openapi.Operation{ID: "resetTOTP", Tag: "identities", Summary: "Reset a user's two-factor authentication and end the user's sessions.", Answers: ok("The user.", wire.User{})}
	opDeleteUser  = &openapi.Operation{ID: "deleteUser", Tag: "identities", Summary: "Delete a user.", Answers: []openapi.Answer{{Status: http.StatusNoContent, Doc: "Deleted."}}}
	opWhoami      = &openapi.Operation{
		ID: "whoami", Tag: "identities", Summary: "Show whose credential is used and what it may do.", Answers: ok("The user or token.", wire.Whoami{}),
	}
)

func (h *userHandler) listUsers(c *httpserver.Call) error {
	q := c.ParseQuery(routes.WholeListParams...)
	var f identity.UserFilter
	f.Search, f.Order, f.Limit, f.Cursor = routes.ReadWholeList(q, identity.UserOrders)
	if q.Err() != nil {
		return q.Err()
	}
	page, err := h.users.Find(c.Context(), f)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, routes.WholeListPage(page, fromUser))
}

func (h *userHandler) getUser(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	u, err := h.users.ByID(c.Context(), id)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, fromUser(u))
}

func (h *userHandler) addUser(c *httpserver.Call) error {
	var request wire.UserRequest
	if err := c.DecodeJSON(&request); err != nil {
		return err
	}
	u, err := h.users.Create(c.Context(), callerOf(c), identities.CreateUser{Name: request.Name, Role: request.Role, Password: request.Password})
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderLocation, wire.PathUsers+"/"+u.ID)
	return c.SendJSON(http.StatusCreated, fromUser(u))
}

// changeUser also ends the sessions of the user.
func (h *userHandler) changeUser(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	var patch wire.UserPatch
	if err := c.DecodeJSON(&patch); err != nil {
		return err
	}
	var u identities.UpdateUser
	if patch.Role.Given {
		u.Role = &patch.Role.Value
	}
	if patch.Disabled.Given {
		u.Disabled = &patch.Disabled.Value
	}
	changed, err := h.users.Update(c.Context(), callerOf(c), id, u)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, fromUser(changed))
}

func (h *userHandler) setPassword(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	var request wire.PasswordRequest
	if err := c.DecodeJSON(&request); err != nil {
		return err
	}
	changed, err := h.users.SetPassword(c.Context(), callerOf(c), id, request.Password)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, fromUser(changed))
}

// resetTOTP also ends the sessions of the user.
func (h *userHandler) resetTOTP(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	changed, err := h.users.ResetTOTP(c.Context(), callerOf(c), id)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, fromUser(changed))
}

func (h *userHandler) deleteUser(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	if err := h.users.Delete(c.Context(), callerOf(c), id); err != nil {
		return err
	}
	return c.SendStatus(http.StatusNoContent)
}

// fromUser returns a user as the API shows it.
func fromUser(u *identity.User) wire.User {
	return wire.User{
		ID: u.ID, Name: u.Name, Role: string(u.Role), Disabled: !u.Disabled.IsZero(),
		Source: string(u.Source()), Issuer: u.Issuer, Subject: u.Subject,
		CreatedAt: wire.At(u.Created), LastLoginAt: wire.At(u.LastLogin), DisabledAt: wire.At(u.Disabled),
		TOTPSince: wire.At(u.TOTPSince),
	}
}

// scopesOf returns the scopes with which a token has the same access as p.
func scopesOf(p *httpserver.Principal) []identity.Access {
	return slices.DeleteFunc(slices.Clone(p.Access), func(a identity.Access) bool { return a == identity.Account })
}

func handleWhoami(c *httpserver.Call) error {
	if err := c.ParseQuery().Err(); err != nil {
		return err
	}
	p := c.Principal
	who := wire.Whoami{
		Kind: string(p.Kind), ID: p.ID, Name: p.Name, Scopes: fromAccess(scopesOf(p)),
		ExpiresAt: wire.At(p.Expires), Address: c.Address.String(),
	}
	if p.Role != "" {
		role := string(p.Role)
		who.Role = &role
	}
	return c.SendJSON(http.StatusOK, who)
}
