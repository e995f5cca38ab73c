package adminui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/audit"
)

func TestOwnPasswordChangeRequiresCurrentPassword(t *testing.T) {
	n := newNode(t)
	maria, id := n.as(t, "maria"), n.userID(t, "maria")
	maria.get("/users?edit=" + id).is(http.StatusOK).holds(`href="/account"`).lacks("/users/" + id + "/password")
	next := url.Values{"password": {"another horse battery"}}
	maria.post("/users/"+id+"/password", next).is(http.StatusForbidden).holds("the page of your account")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, n.url+"/v1/users/"+id+"/password", strings.NewReader(`{"password":"another horse battery"}`))
	must(t, err)
	r.Header = http.Header{"Content-Type": {"application/json"}, "X-Csrf-Token": {maria.csrf}, "Sec-Fetch-Site": {"same-origin"}}
	maria.send(r).is(http.StatusForbidden).holds("the page of your account")
	// Without the current password, or with a wrong one, nothing is changed.
	maria.post("/account/password", next).is(http.StatusUnprocessableEntity).holds("Is wrong")
	next.Set("current_password", "a guess of it")
	maria.post("/account/password", next).is(http.StatusUnprocessableEntity).holds("Is wrong").lacks("a guess of it").lacks("another horse battery")
	n.as(t, "maria")
	// Changing another user's password does not require it.
	maria.post("/users/"+n.userID(t, "vic")+"/password", url.Values{"password": {"another horse battery"}}).is(http.StatusSeeOther)
}

func TestAccountPageChangesOwnPassword(t *testing.T) {
	n := newNode(t)
	const next = "another horse battery"
	vic, elsewhere := n.as(t, "vic"), n.as(t, "vic")
	vic.get("/account").is(http.StatusOK).holds("Current password")
	vic.post("/account/password", url.Values{"current_password": {password}, "password": {"short"}}).is(http.StatusUnprocessableEntity).holds("too short")
	to := vic.post("/account/password", url.Values{"current_password": {password}, "password": {next}}).is(http.StatusSeeOther).header.Get("Location")
	vic.get(to).is(http.StatusOK).holds("Your password is changed.")
	for _, v := range []*visitor{vic, elsewhere} {
		v.get("/account").is(http.StatusSeeOther)
	}
	vic.post("/login", url.Values{"name": {"vic"}, "password": {password}}).is(http.StatusUnprocessableEntity)
	vic.post("/login", url.Values{"name": {"vic"}, "password": {next}}).is(http.StatusSeeOther)
	entry := n.entries(t, audit.Filter{Action: "user.update", Limit: 1})[0]
	if entry.Actor.Name != "vic" || entry.Summary != `Changed the user "vic": new password.` {
		t.Errorf("got the audit record %+v", entry)
	}
}

func TestGuessingCurrentPasswordIsThrottled(t *testing.T) {
	n := newNode(t)
	vic := n.as(t, "vic")
	guess := url.Values{"current_password": {"a guess of it"}, "password": {"another horse battery"}}
	for range 60 {
		got := vic.post("/account/password", guess)
		if got.status == http.StatusTooManyRequests {
			if got.header.Get("Retry-After") == "" {
				t.Error("the response has no Retry-After header")
			}
			return
		}
		got.is(http.StatusUnprocessableEntity)
	}
	t.Error("60 guesses of the password were not throttled")
}

func TestOwnPasswordChangeInBrowser(t *testing.T) {
	n := newNode(t)
	b := newBrowser(t, n)
	b.withAxe()
	b.logIn("vic")
	b.do(chromedp.Navigate(n.url + "/account"))
	b.write("#current-password", "a wrong password")
	b.write("#new-password", "another horse battery\r")
	b.waitFor(`document.querySelector("#current-password[aria-invalid]")`)
	b.inspect("account-password-wrong", "")
	b.write("#current-password", password)
	b.write("#new-password", "another horse battery\r")
	b.waitFor(`document.body.textContent.includes("Your password is changed.")`)
	b.inspect("account-password-changed", "")
	b.write("#name", "vic")
	b.write("#password", "another horse battery\r")
	b.waitFor(`document.querySelector("nav")`)
}
