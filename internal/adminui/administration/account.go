package administration

import (
	"cmp"
	"errors"
	"net/http"
	"strings"

	"github.com/stint-dev/stint/internal/admin/identities"
	"github.com/stint-dev/stint/internal/adminui/chart"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/phrase"
)

// accountPage is the page of a user's own login. It shows SetUp or Codes if one is set, else
// TOTP.
type accountPage struct {
	site.Frame
	MustSetUp   bool
	Next        string         // the page that the user wanted
	TOTP        *identity.TOTP // nil: login is by password only
	SetUp       *totpSetUp
	Codes       []string // recovery codes, shown once
	Renewed     bool     // the codes replace earlier ones
	FieldErrors form.FieldErrors
	Failed      string // the form with errors: setup, renew, disable or password
	AskPassword bool   // in the set-up
	HasPassword bool   // false for users of an OpenID provider
}

// totpSetUp is a secret in the forms that apps read.
type totpSetUp struct {
	QR     chart.QR
	Secret string // in groups of four characters and lines of sixteen
	URL    string
}

// CodesText returns the recovery codes, one a line.
func (p accountPage) CodesText() string { return strings.Join(p.Codes, "\n") }

// accountHandler lets users manage their own login.
type accountHandler struct {
	*site.Site
	factors  *identities.TwoFactor
	password *identities.OwnPassword
}

func init() {
	add(func(s *site.Site, d Deps) handler {
		return &accountHandler{Site: s, factors: d.TwoFactor, password: d.OwnPassword}
	})
}

func (h *accountHandler) routes() []httpserver.Route {
	return []httpserver.Route{
		h.Get("/account", identity.Account, h.showAccount),
		h.Post("/account/totp/start", identity.Account, h.startTOTP),
		h.Post("/account/totp", identity.Account, h.confirmTOTP),
		h.Post("/account/totp/recovery", identity.Account, h.renewCodes),
		h.Post("/account/totp/disable", identity.Account, h.disableTOTP),
		h.Post("/account/password", identity.Account, h.changePassword),
	}
}

func (h *accountHandler) newPage(c *httpserver.Call, next string) accountPage {
	return accountPage{
		Frame: h.NewFrame(c, "Your account", ""), MustSetUp: c.Principal.MustSetUpTOTP, Next: site.OwnPath(cmp.Or(next, "/account")), FieldErrors: form.FieldErrors{},
	}
}

var accountToasts = map[string]string{"off": "Two-factor authentication is disabled."}

func (h *accountHandler) showAccount(c *httpserver.Call) error {
	page := h.newPage(c, c.Query("next"))
	page.Toast = site.DoneToast(c, accountToasts)
	return h.render(c, http.StatusOK, page)
}

func (h *accountHandler) render(c *httpserver.Call, status int, page accountPage) (err error) {
	if page.TOTP, err = h.factors.Find(c.Context(), site.CallerOf(c)); err != nil {
		return err
	}
	if page.HasPassword, err = h.password.Has(c.Context(), site.CallerOf(c)); err != nil {
		return err
	}
	return h.Render(c, status, "account", page)
}

// startTOTP shows a secret. It answers a POST, so that the secret is not compressed together
// with a text of somebody else.
func (h *accountHandler) startTOTP(c *httpserver.Call) error {
	return h.renderSetUp(c, http.StatusOK, h.newPage(c, form.Values(c).Get("next")))
}

func (h *accountHandler) renderSetUp(c *httpserver.Call, status int, page accountPage) error {
	secret, err := h.factors.Start(c.Context(), site.CallerOf(c), c.Principal.Proof)
	if err != nil {
		return err
	}
	address := secret.URL(c.Principal.Name + "@" + format.ClipLine(c.Hostname(), 100))
	code, err := chart.DrawQR(address)
	if err != nil {
		return err
	}
	page.AskPassword = !h.isFreshLogin(c)
	page.SetUp = &totpSetUp{QR: code, Secret: inGroups(secret.Text()), URL: address}
	return h.Render(c, status, "account", page)
}

// inGroups inserts a space after every four characters and breaks lines for a phone's width, so
// that people can copy the text.
func inGroups(text string) string {
	var grouped []byte
	for i := range len(text) {
		switch {
		case i == 0 || i%4 != 0:
		case i%16 == 0:
			grouped = append(grouped, '\n')
		default:
			grouped = append(grouped, ' ')
		}
		grouped = append(grouped, text[i])
	}
	return string(grouped)
}

func (h *accountHandler) confirmTOTP(c *httpserver.Call) error {
	values := form.Values(c)
	page := h.newPage(c, values.Get("next"))
	codes, err := h.factors.Confirm(c.Context(), site.CallerOf(c), identities.ConfirmTOTP{
		Session: c.Principal.Proof, Password: values.Get("password"), Code: format.ClipLine(values.Get("code"), 64), LoggedIn: h.isFreshLogin(c),
	})
	if err != nil {
		if err := refuseThrottled(c, err); err != nil {
			return err
		}
		status := httpserver.StatusOf(err)
		if err := page.FieldErrors.Add(err); err != nil {
			return err
		}
		page.Failed = "setup"
		return h.renderSetUp(c, status, page)
	}
	page.Codes = codes
	return h.Render(c, http.StatusOK, "account", page)
}

// isFreshLogin reports whether the caller must set up a second factor and has just logged in
// with the password.
func (h *accountHandler) isFreshLogin(c *httpserver.Call) bool {
	return c.Principal.MustSetUpTOTP && h.factors.IsFreshLogin(c.Principal.LoggedIn)
}

// refuseThrottled returns the fault for an attempt that has to wait, nil for another error.
func refuseThrottled(c *httpserver.Call, err error) error {
	var throttled *identities.ThrottledLogin
	if !errors.As(err, &throttled) {
		return nil
	}
	c.Set("Retry-After", format.Seconds(throttled.Wait))
	return fault.New(fault.TooMany, "Nothing was changed: there were too many attempts. Wait %s, then try again.", phrase.Duration(format.RoundUp(throttled.Wait)))
}

func (h *accountHandler) renewCodes(c *httpserver.Call) error {
	page := h.newPage(c, "")
	codes, err := h.factors.RenewRecoveryCodes(c.Context(), site.CallerOf(c), format.ClipLine(form.Values(c).Get("code"), 64))
	if err != nil {
		return h.refuse(c, err, "renew", page)
	}
	page.Codes, page.Renewed = codes, true
	return h.Render(c, http.StatusOK, "account", page)
}

func (h *accountHandler) disableTOTP(c *httpserver.Call) error {
	values := form.Values(c)
	if err := h.factors.Disable(c.Context(), site.CallerOf(c), values.Get("password"), format.ClipLine(values.Get("code"), 64)); err != nil {
		return h.refuse(c, err, "disable", h.newPage(c, ""))
	}
	return h.Redirect(c, "/account?done=off")
}

// changePassword changes the password, which ends all sessions of the user, including this one.
func (h *accountHandler) changePassword(c *httpserver.Call) error {
	values := form.Values(c)
	err := h.password.Change(c.Context(), site.CallerOf(c), identities.ChangePassword{
		Current: values.Get("current_password"), Password: values.Get("password"),
	})
	if err != nil {
		return h.refuse(c, err, "password", h.newPage(c, ""))
	}
	return h.Redirect(c, "/login?changed=yes")
}

// refuse shows the page again with the errors of one of its forms.
func (h *accountHandler) refuse(c *httpserver.Call, err error, failed string, page accountPage) error {
	if err := refuseThrottled(c, err); err != nil {
		return err
	}
	status := httpserver.StatusOf(err)
	if err := page.FieldErrors.Add(err); err != nil {
		return err
	}
	page.Failed = failed
	return h.render(c, status, page)
}
