package adminui_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/blocks"
)

// then follows the redirect that answers a form.
func (a *answer) then(v *visitor) *answer {
	a.t.Helper()
	return v.get(a.is(http.StatusSeeOther).header.Get("Location")).is(http.StatusOK)
}

func TestSourcesAreAddedPulledAgreedToAndRemovedOnTheirPage(t *testing.T) {
	n := newNode(t)
	n.list = "198.51.100.1\n198.51.100.2\n10.0.0.1\n"
	admin, viewer := n.as(t, "maria"), n.as(t, "vic")
	admin.get("/blocks").is(http.StatusOK).holds("/blocks/sources")
	admin.get("/blocks/sources").is(http.StatusOK).holds("There is no source.").holds("Spamhaus DROP, IPv4").holds("Free for any use")
	admin.post("/blocks/sources", url.Values{"name": {"Bad"}, "url": {"https://lists.example.com/"}, "as": {"block"}, "header_secret": {"Key: sesame"}}).
		is(http.StatusUnprocessableEntity).holds("1 to 50 of a-z").lacks("sesame")
	admin.post("/blocks/sources", url.Values{"name": {"bad"}, "url": {"https://lists.example.com/"}, "as": {"block"}, "every": {"soon"}}).is(http.StatusUnprocessableEntity).holds("has no number")
	admin.post("/blocks/sources", url.Values{"name": {"bad"}, "url": {"https://lists.example.com/"}, "as": {"block"}, "every": {"2h"}}).then(admin).
		holds("The source is added.").says("https://lists.example.com/").holds("current").holds("1 row left out")
	admin.get("/blocks").is(http.StatusOK).lacks("198.51.100.1")
	admin.get("/blocks?source=list&author=list/bad").is(http.StatusOK).holds("198.51.100.1")
	n.list = strings.Repeat("198.51.100.1\n", 3)
	admin.post("/blocks/sources/bad/pull", nil).then(admin).holds("asked for its list")
	n.list = ""
	for i := range 250 {
		n.list += fmt.Sprintf("192.0.2.%d\n", i)
	}
	admin.post("/blocks/sources/bad/pull", nil).then(admin).holds("A pull is held since")
	viewer.get("/blocks/sources").is(http.StatusOK).holds("A pull is held since").lacks("Agree to the pull").lacks("Pull now")
	viewer.post("/blocks/sources/bad/agree", nil).is(http.StatusForbidden)
	admin.post("/blocks/sources/bad/agree", nil).then(admin).holds("The pull is in force").lacks("A pull is held since")
	admin.get("/blocks/sources?remove=bad").is(http.StatusOK).holds("unless another source holds them")
	n.as(t, "olu").post("/blocks/sources/bad/remove", nil).is(http.StatusForbidden)
	admin.post("/blocks/sources/bad/remove", nil).then(admin).holds("its rows have ended").holds("There is no source.")
}

func TestRowsThatChallengeAreShownAsSuch(t *testing.T) {
	n := newNode(t)
	n.list = "198.51.100.1\n"
	admin := n.as(t, "maria")
	admin.get("/blocks/sources").is(http.StatusOK).holds(`value="challenge"`)
	admin.post("/blocks/sources", url.Values{"name": {"tor"}, "url": {"https://lists.example.com/"}, "as": {"challenge"}}).then(admin).holds("The source is added.")
	admin.get("/blocks?source=list").is(http.StatusOK).holds("198.51.100.1").holds("challenges").lacks(blocks.ChallengeScope)
	admin.get("/key?key=ip:198.51.100.1").is(http.StatusOK).holds("challenges clients without a pass").holds("Block this key").lacks(blocks.ChallengeScope)
}
