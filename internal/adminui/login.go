package adminui

import (
	"net/http"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/api"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

// maxLogin is how many bytes the form may have that anybody may send.
const maxLogin = 16 << 10

type loginPage struct {
	Frame
	Next    string
	Name    string
	Problem string // what did not work, "" on the first visit
	Advice  string
}

func (u *UI) loginRoutes() []api.Route {
	return []api.Route{
		u.get("/login", identity.Public, u.showLogin),
		u.post("/login", identity.Public, u.logIn),
		u.post("/logout", identity.Read, u.logOut),
	}
}

func (u *UI) showLogin(c *api.Call) error {
	return u.renderLogin(c, http.StatusOK, loginPage{Next: ownPath(c.Query("next", "/"))})
}

func (u *UI) renderLogin(c *api.Call, status int, page loginPage) error {
	page.Frame = u.frame(c, "Log in", "")
	return u.render(c, status, "login", page)
}

// logIn counts the attempt before it looks at the password.
func (u *UI) logIn(c *api.Call) error {
	if !fromHere(c.Ctx) {
		return errForged
	}
	if _, err := httpserver.ReadBody(c.Context(), maxLogin); err != nil {
		return fault.New(fault.TooLarge, "Nobody was logged in: the form has more than %d bytes.", maxLogin)
	}
	values, err := form(c)
	if err != nil {
		return err
	}
	page := loginPage{Next: ownPath(values.Get("next")), Name: clipLine(strings.TrimSpace(values.Get("name")), 64)}
	ctx, cancel := c.StoreContext()
	defer cancel()
	if wait := u.Throttle.Login(ctx, c.Address, page.Name); wait > 0 {
		u.Failed.Refused(c.Address, u.Now())
		page.Problem, page.Advice = "Too many tries.", "Wait "+duration(roundUp(wait))+", then try again. The right password will not be looked at before."
		c.Set("Retry-After", seconds(wait))
		return u.renderLogin(c, http.StatusTooManyRequests, page)
	}
	user, err := u.Identity.FindUserByName(ctx, page.Name)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	phc := "" // of nobody: takes as long and is never right
	if user != nil {
		phc = user.PasswordHash
	}
	if !identity.VerifyPassword(phc, values.Get("password")) || !user.Disabled.IsZero() {
		u.Failed.Wrong(user, c.Address, u.Now())
		page.Problem = "Name and password do not match."
		page.Advice = triesLeft(u.Throttle.LoginsLeft(ctx, c.Address, page.Name))
		return u.renderLogin(c, http.StatusUnprocessableEntity, page)
	}
	if err := u.endSession(ctx, c); err != nil { // of whoever was logged in before
		return err
	}
	err = u.beginSession(ctx, c, user)
	if fault.Is(err, fault.Conflict) { // the user was changed a moment ago
		page.Problem, page.Advice = "You are not logged in.", err.Error()
		return u.renderLogin(c, http.StatusConflict, page)
	}
	if err != nil {
		return err
	}
	u.Throttle.LoggedIn(ctx, c.Address, page.Name)
	return u.seeOther(c, page.Next)
}

func triesLeft(n int) string {
	switch n {
	case 0:
		return "That was the last try; the next one has to wait."
	case 1:
		return "1 more try, then a wait of one minute."
	}
	return number(int64(n)) + " more tries, then a wait of one minute."
}

func (u *UI) logOut(c *api.Call) error {
	ctx, cancel := c.StoreContext()
	defer cancel()
	if err := u.endSession(ctx, c); err != nil {
		return err
	}
	return u.seeOther(c, "/login")
}

// roundUp makes a wait into whole seconds that suffice.
func roundUp(d time.Duration) time.Duration { return (d + time.Second - 1).Truncate(time.Second) }
