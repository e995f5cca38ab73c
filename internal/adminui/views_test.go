package adminui_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestViewsPageSavesOpensRenamesAndDeletesViews(t *testing.T) {
	n := newNode(t)
	operator, viewer := n.as(t, "olu"), n.as(t, "vic")
	// The form of the page has the query that is saved.
	page := operator.get("/offenders?state=open&last=24h&sort=last&pattern=203.0.113.0/24&columns=rule").is(http.StatusOK).holds("Save as a view")
	query := html.UnescapeString(regexp.MustCompile(`name="query"\s+value="([^"]*)"`).FindStringSubmatch(page.body)[1])
	const name = `<script>alert(1)</script> "x"`
	operator.post("/offenders/views", url.Values{"name": {name}, "query": {query}}).is(http.StatusSeeOther)
	const escaped = "&lt;script&gt;alert(1)&lt;/script&gt; &#34;x&#34;"
	opened := viewer.get("/offenders").is(http.StatusOK).holds(escaped).lacks("<script>alert").lacks("Save as a view")
	address := html.UnescapeString(regexp.MustCompile(`class="chip" href="([^"]*)"`).FindStringSubmatch(opened.body)[1])
	for _, part := range []string{"state=open", "last=", "sort=last", "pattern=ip%3A203.0.113.0%2F24"} {
		if !strings.Contains(address, part) {
			t.Errorf("the view opens %s, want %s in it", address, part)
		}
	}
	viewer.get(address).is(http.StatusOK).holds(`aria-current="true" title="Saved by olu"`).holds("Key is")
	viewer.get("/offenders/views").is(http.StatusOK).holds(escaped).holds("Key is ip:203.0.113.0/24").holds("newest first").holds("olu").lacks("Rename").lacks("Delete the view")
	// Errors of a form are shown at its fields, and the typed values are kept.
	for field, value := range map[string]string{"name": strings.Repeat("x", 61), "query": "back=/&cursor=1"} {
		wrong := url.Values{"name": {"kept as typed"}, "query": {"state=open"}}
		wrong.Set(field, value)
		operator.post("/offenders/views", wrong).is(http.StatusUnprocessableEntity).holds(`class="field-error"`)
	}
	operator.post("/offenders/views", url.Values{"name": {name}, "query": {"state=blocked"}}).is(http.StatusUnprocessableEntity).
		holds("Is the name of another view").holds(`name="query" value="state=blocked"`)
	id := regexp.MustCompile(`action="/offenders/views/([^"/]+)"`).FindStringSubmatch(operator.get("/offenders/views?query=state%3Dblocked").body)[1]
	operator.post("/offenders/views/"+id, url.Values{"name": {"\n"}}).is(http.StatusUnprocessableEntity).holds(`class="field-error"`)
	operator.post("/offenders/views/"+id, url.Values{"name": {"Open ones"}}).is(http.StatusSeeOther)
	day := start.UTC().Truncate(24*time.Hour).AddDate(0, 0, -2)
	since, until := day.Format(time.RFC3339), day.AddDate(0, 0, 1).Format(time.RFC3339)
	operator.post("/offenders/views/"+id, url.Values{"query": {"from=" + since + "&to=" + until}}).is(http.StatusSeeOther)
	viewer.get("/offenders").is(http.StatusOK).holds("Open ones").holds("since=" + url.QueryEscape(since)).lacks(escaped)
	viewer.get("/offenders?since=" + since + "&until=" + until).is(http.StatusOK).holds(`aria-current="true" title="Saved by olu"`)
	// A viewer can only open views.
	for _, path := range []string{"", "/" + id, "/" + id + "/delete"} {
		viewer.post("/offenders/views"+path, url.Values{"name": {"mine"}, "query": {""}}).is(http.StatusForbidden)
	}
	operator.get("/offenders/views?query=" + url.QueryEscape("evil=<b>")).is(http.StatusOK).lacks("Save the view")
	operator.post("/offenders/views/"+id+"/delete", nil).is(http.StatusSeeOther)
	operator.post("/offenders/views/"+id+"/delete", nil).is(http.StatusNotFound)
	viewer.get("/offenders/views").is(http.StatusOK).holds("No view is saved yet.")
}
