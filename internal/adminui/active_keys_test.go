package adminui_test

import (
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/stint-dev/stint/internal/adminui/site"
)

// A customer that was never refused calls: its key must be found.
func TestKeyThatWasNeverRefusedIsFound(t *testing.T) {
	n := newNode(t)
	n.attack(t)
	n.send(t, "ip:192.0.2.201")
	n.flush(t)
	vic := n.as(t, "vic")
	for _, typed := range []string{"192.0.2.201", "92.0.2.20"} {
		got, why := vic.get("/go/keys?q=" + typed).suggestions()
		if at := slices.Index(got, "ip:192.0.2.201"); at < 0 || why[at] == "not seen in the last 30 days" {
			t.Errorf("typing %s suggests %q, %q", typed, got, why)
		}
	}
	for typed, path := range map[string]string{
		"192.0.2.201":    site.KeyPath + "?key=ip%3A192.0.2.201",
		"0.2.20":         site.ActiveKeysPath + "?search=0.2.20",
		"192.0.2.0/24":   site.ActiveKeysPath + "?pattern=ip%3A192.0.2.0%2F24",
		"203.0.113.0/24": "/offenders?pattern=ip%3A203.0.113.0%2F24",
	} {
		if got := vic.get("/go?q=" + url.QueryEscape(typed)).is(http.StatusSeeOther).header.Get("Location"); got != path {
			t.Errorf("%s leads to %s, want %s", typed, got, path)
		}
	}
	vic.get("/key?key=ip:192.0.2.201").is(http.StatusOK).lacks("Never seen")
	vic.get("/key?key=ip:192.0.2.222").is(http.StatusOK).holds("Never seen")
	page := vic.get("/keys/active?search=192.0.2.201").is(http.StatusOK)
	page.holds("1 key that matches these filters was checked").holds(`data-key="ip:192.0.2.201"`).lacks("203.0.113")
	vic.get("/keys/active?policy=none").is(http.StatusOK).holds("There is no policy of that name").holds("No keys are shown")
	vic.get("/keys/active?pattern=" + url.QueryEscape("country:NL")).is(http.StatusOK).holds("Must be a network")
	all := vic.get("/keys/active").is(http.StatusOK)
	all.holds("203.0.113.6").holds(`href="/keys"`)
	vic.get("/keys/active?refused=never").is(http.StatusOK).holds("192.0.2.201").lacks("203.0.113.6")
	vic.get("/keys/active?refused=once").is(http.StatusOK).holds("Must be never").holds("No keys are shown")
	vic.get("/keys").holds(`href="/keys/active"`)
}
