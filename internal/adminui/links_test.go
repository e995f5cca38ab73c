package adminui_test

import (
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/adminui"
)

var (
	linkTo  = regexp.MustCompile(`href="([/#][^"]*)"`)
	ofAnId  = regexp.MustCompile(` id="([^"]+)"`)
	docLink = regexp.MustCompile(`href="(https://github.com/stint-dev/[^"]+)"`)
)

// Every link of the pages leads to a page, and every anchor to a part of it.
func TestLinksAndAnchorsOfPagesExist(t *testing.T) {
	n := newNode(t)
	n.fill(t)
	maria := n.as(t, "maria")
	asked := map[string]*answer{}
	ask := func(path string) *answer {
		if asked[path] == nil {
			asked[path] = maria.get(path)
		}
		return asked[path]
	}
	pages := n.pages(t)
	for _, m := range regexp.MustCompile(`href="(/connect/[a-z0-9-]+)"`).FindAllStringSubmatch(maria.get("/connect").body, -1) {
		pages[m[1]] = m[1]
	}
	for _, path := range pages {
		if path == "/login" {
			continue
		}
		body := ask(path).is(http.StatusOK).body
		for _, m := range linkTo.FindAllStringSubmatch(body, -1) {
			target, anchor, hasAnchor := strings.Cut(html.UnescapeString(m[1]), "#")
			if target == "" {
				target = path
			}
			if strings.HasPrefix(target, "/static/") || strings.Contains(target, "/export") {
				continue
			}
			got := ask(target)
			if got.status != http.StatusOK && got.status != http.StatusSeeOther {
				t.Errorf("%s links to %s, which answers %d", path, target, got.status)
				continue
			}
			if hasAnchor && got.status == http.StatusOK && !hasID(got.body, anchor) {
				t.Errorf("%s links to #%s of %s, which is not there", path, anchor, target)
			}
		}
	}
}

func hasID(body, id string) bool {
	for _, m := range ofAnId.FindAllStringSubmatch(body, -1) {
		if html.UnescapeString(m[1]) == id {
			return true
		}
	}
	return false
}

func TestDocsAreThoseOfTheRunningVersion(t *testing.T) {
	for version, ref := range map[string]string{"v0.4.1": "v0.4.1", "v0.4.2-0.20261120-3f2a9c41d07b": "main", "devel": "main"} {
		n := newNode(t, func(d *adminui.Deps) { d.Build.Version = version })
		found := docLink.FindStringSubmatch(n.as(t, "vic").get("/settings").body)
		if want := "https://github.com/stint-dev/stint/tree/" + ref + "/docs"; found == nil || found[1] != want {
			t.Errorf("%s links to %q, want %s", version, found, want)
		}
	}
}

// What the page Connect says of a new token holds for the gateway.
func TestConnectSaysWhereTheTokenIs(t *testing.T) {
	n := newNode(t)
	maria := n.as(t, "maria")
	kinds := map[bool]int{}
	for _, m := range regexp.MustCompile(`href="(/connect/[a-z0-9-]+)"`).FindAllStringSubmatch(maria.get("/connect").body, -1) {
		says := strings.Contains(oneLine(maria.get(m[1]).body), "also in the configuration")
		made := maria.post(m[1]+"/token", nil).is(http.StatusOK)
		secrets := strings.Count(made.body, secretOf(made.body))
		if is := strings.Contains(oneLine(made.body), "is in the configuration below"); is != says || is != (secrets > 2) {
			t.Errorf("%s: before it says %t, then %t, and the secret is there %d times", m[1], says, is, secrets)
		}
		kinds[says]++
	}
	if kinds[true] == 0 {
		t.Errorf("no configuration has a token: %v", kinds)
	}
}

func secretOf(body string) string {
	return regexp.MustCompile(`stint_[a-z]+_[A-Za-z0-9]+`).FindString(body)
}
