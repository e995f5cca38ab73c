package adminui_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/adminui"
)

var invitationLink = regexp.MustCompile(`http://[^/"< ]+(/invitation\?code=[A-Za-z0-9_.~-]+)`)

// linkIn returns the path of the invitation that a page shows.
func linkIn(t testing.TB, page *answer) string {
	t.Helper()
	found := invitationLink.FindStringSubmatch(page.body)
	if found == nil {
		t.Fatalf("the page shows no link: %s", page.shown())
	}
	return found[1]
}

func TestInvitationSetsPasswordOnce(t *testing.T) {
	n := newNode(t)
	maria := n.as(t, "maria")
	link := linkIn(t, maria.post("/users", url.Values{"name": {"nina"}, "role": {"viewer"}, "password": {""}}).is(http.StatusOK).says("Send this link to nina"))
	code, err := url.QueryUnescape(strings.TrimPrefix(link, "/invitation?code="))
	must(t, err)
	nina := n.visitor(t)
	nina.post("/login", url.Values{"name": {"nina"}, "password": {""}}).is(http.StatusUnprocessableEntity)
	nina.get(link).is(http.StatusOK).holds(`value="nina"`)
	accept := func(code, password string) *answer {
		return nina.post("/invitation", url.Values{"code": {code}, "password": {password}})
	}
	accept(code, "short").is(http.StatusUnprocessableEntity).holds("too short")
	for _, forged := range []string{"", "x", code + "A", "A" + code, strings.Replace(code, ".", ".z", 1), n.userID(t, "maria") + code[strings.Index(code, "."):]} {
		accept(forged, "a password of nina").is(http.StatusNotFound).says("has expired, was used, or was replaced by a newer one")
	}
	accept(code, "a password of nina").is(http.StatusSeeOther)
	accept(code, "another password").is(http.StatusNotFound)
	nina.get(link).is(http.StatusNotFound)
	nina.post("/login", url.Values{"name": {"nina"}, "password": {"a password of nina"}}).is(http.StatusSeeOther)

	id := n.userID(t, "nina")
	again := func() string { return linkIn(t, maria.post("/users/"+id+"/invitation", nil).is(http.StatusOK)) }
	expired := again()
	n.clock.advance(3*24*time.Hour + time.Second)
	nina.get(expired).is(http.StatusNotFound)
	maria = n.as(t, "maria")
	replaced := again()
	maria.post("/users/"+id+"/password", url.Values{"password": {"set by maria"}}).is(http.StatusSeeOther)
	nina.get(replaced).is(http.StatusNotFound)
	nina.post("/login", url.Values{"name": {"nina"}, "password": {"set by maria"}}).is(http.StatusSeeOther)
	nina.get("/").is(http.StatusOK)
	loggedOut := again()
	nina.post("/logout", nil).is(http.StatusSeeOther)
	nina.get(loggedOut).is(http.StatusNotFound)
	first, second := again(), again()
	nina.get(first).is(http.StatusNotFound)
	nina.get(second).is(http.StatusOK)
	disabled := again()
	maria.post("/users/"+id+"/disable", nil).is(http.StatusSeeOther)
	nina.get(disabled).is(http.StatusNotFound)
	maria.post("/users/"+id+"/invitation", nil).is(http.StatusConflict)
	maria.post("/users/"+n.userID(t, "maria")+"/invitation", nil).is(http.StatusForbidden)

	maria.post("/users/"+id+"/enable", nil).is(http.StatusSeeOther)
	nina.get(disabled).is(http.StatusNotFound)
	b := newBrowser(t, n)
	b.withAxe()
	b.do(chromedp.EmulateViewport(1440, 900))
	b.screens("invitation", again())
	b.consoleIsClean()
}

// An invitation has the URL by which the browser of the admin reaches the pages, and rather that of the
// settings.
func TestInvitationHasURLOfPages(t *testing.T) {
	for want, change := range map[string]func(*adminui.Deps){
		"https://stint.example.com/invitation?": func(*adminui.Deps) {},
		"https://pages.example.com/invitation?": func(d *adminui.Deps) { d.PagesURL = "https://pages.example.com" },
	} {
		n := newNode(t, change)
		maria := n.as(t, "maria")
		maria.get("/users")
		form := url.Values{"name": {"nina"}, "role": {"viewer"}, "password": {""}, "csrf": {maria.csrf}}
		maria.do(http.MethodPost, "/users", form, http.Header{"Origin": {"https://stint.example.com"}}).is(http.StatusOK).holds(want)
	}
}
