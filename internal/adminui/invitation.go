package adminui

import (
	"net/http"

	"github.com/stint-dev/stint/internal/admin/identities"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

// invitationPage asks an invited user for a password.
type invitationPage struct {
	site.Frame
	Code, Name  string
	Problem     string // why the invitation is not valid
	FieldErrors form.FieldErrors
}

// invitationHandler serves the page of invitations.
type invitationHandler struct {
	*site.Site
	users *identities.Users
}

func (h *invitationHandler) routes() []httpserver.Route {
	return []httpserver.Route{
		h.Get(identities.InvitationPath, identity.Public, h.showInvitation),
		h.Post(identities.InvitationPath, identity.Public, h.acceptInvitation),
	}
}

func (h *invitationHandler) showInvitation(c *httpserver.Call) error {
	page := &invitationPage{Code: c.Query("code"), FieldErrors: form.FieldErrors{}}
	user, err := h.users.FindInvited(c.Context(), page.Code)
	if err != nil {
		return h.refuse(c, page, err)
	}
	page.Name = user.Name
	return h.renderInvitation(c, http.StatusOK, page)
}

func (h *invitationHandler) acceptInvitation(c *httpserver.Call) error {
	if !fromHere(c.Ctx) {
		return errForged
	}
	if _, err := httpserver.ReadBody(c.Ctx.Context(), maxLogin); err != nil {
		return fault.New(fault.TooLarge, "No password was set: the form has more than %d bytes.", maxLogin)
	}
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	page := &invitationPage{Code: values.Get("code"), FieldErrors: form.FieldErrors{}}
	if page.Name, err = h.users.Accept(c.Context(), site.CallerOf(c), page.Code, values.Get("password")); err != nil {
		if fault.Is(err, fault.NotFound) {
			return h.refuse(c, page, err)
		}
		return page.FieldErrors.Again(err, func(status int) error { return h.renderInvitation(c, status, page) })
	}
	return h.Redirect(c, "/login?changed=1")
}

// refuse says that an invitation is not valid.
func (h *invitationHandler) refuse(c *httpserver.Call, page *invitationPage, err error) error {
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	page.Problem = err.Error()
	return h.renderInvitation(c, http.StatusNotFound, page)
}

func (h *invitationHandler) renderInvitation(c *httpserver.Call, status int, page *invitationPage) error {
	page.Frame = h.NewFrame(c, "Set your password", "")
	c.Set("Referrer-Policy", "same-origin") // the address has the code; without a referrer the form has no origin either
	return h.Render(c, status, "invitation", page)
}
