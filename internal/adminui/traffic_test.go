package adminui_test

import (
	"html"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/breakdown"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/test/storetest"
)

// requested stores what a node counted by dimensions in the present minute.
func (n *node) requested(t testing.TB, id string, rows map[breakdown.Values]breakdown.Row) {
	t.Helper()
	table := &breakdown.Table{}
	for values, row := range rows {
		*table.Row(values) = row
	}
	n.flushTable(t, id, table)
}

func (n *node) flushTable(t testing.TB, id string, table *breakdown.Table) {
	t.Helper()
	at := offences.MinuteOf(n.clock.Now().UnixMilli())
	_, err := n.store.Offences.Flush(t.Context(), &offences.Batch{ID: id, Node: "other", Breakdowns: []breakdown.Chunk{{Minute: at, Data: table.Encode()}}}, offences.Evaluation{Now: n.clock.Now()})
	must(t, err)
}

// TestTrafficIsFiltered opens the page, excludes a monitor and follows one agent to a policy with its
// filter as the condition, each by one click.
func TestTrafficIsFiltered(t *testing.T) {
	n := newNode(t)
	n.requested(t, "requested", map[breakdown.Values]breakdown.Row{
		{"/health", "uptimerobot", "", "GET"}:  {Counts: breakdown.Counts{Allowed: 500}, Clients: breakdown.Clients{{Key: "ip:192.0.2.9", Count: 500}}},
		{"/prices/{id}", "scraper", "", "GET"}: {Counts: breakdown.Counts{Allowed: 40, Limited: 300}, Clients: breakdown.Clients{{Key: "ip:203.0.113.6", Count: 40}}, Offenders: breakdown.Clients{{Key: "ip:203.0.113.6", Count: 300}}},
		{"/<b>&\"", "firefox", "", "GET"}:      {Counts: breakdown.Counts{Allowed: 7}},
	})
	vic, maria := n.as(t, "vic"), n.as(t, "maria")
	page := vic.get("/traffic").is(http.StatusOK).holds("/health").holds("uptimerobot").holds("ip:192.0.2.9").lacks("<b>&").lacks(" false}]").lacks("Block…")
	excluded := linkLabelled(t, page.body, "Exclude /health", "href")
	vic.get(excluded).is(http.StatusOK).lacks("uptimerobot").lacks("ip:192.0.2.9").holds("/prices/").holds("Path is not")
	if !strings.Contains(excluded, "not=path%3D%2Fhealth") {
		t.Errorf("the filter is not in the address %s", excluded)
	}
	page = maria.get("/traffic?is=agent%3Dscraper&decision=refused").is(http.StatusOK).holds("203.0.113.6").holds("Policy for this…").lacks("firefox").holds("Block…")
	policy := linkWith(t, page.body, "/new-policy")
	maria.get(policy).is(http.StatusOK).holds(">scraper\nscraper *\n")
	page.says("A policy for this selects more than these requests")
	maria.get("/traffic?is=path%3D/health").is(http.StatusOK).holds("Policy for this…").lacks("selects more than")
	maria.get("/traffic?is=agent%3Dscraper,rule%3D1/s&not=path%3D/health,country%3D").is(http.StatusOK).lacks("/new-policy").says("no condition selects these values of Refused by, Country")
	maria.get("/traffic?is=rule%3D20/1m").is(http.StatusOK).says("Refused by is 20/min") // as all pages write rules
	both := linkWith(t, maria.get("/traffic?is=agent%3Dscraper,country%3DNL,asn%3D64500&not=path%3D/health").is(http.StatusOK).body, "/new-policy")
	maria.get(both).is(http.StatusOK).holds(">scraper\nscraper *\n").holds("not /health<").holds("country NL\nasn 64500<")
	maria.get(linkWith(t, page.body, "/blocks/new")).is(http.StatusOK).says("1 address")
	vic.get("/traffic?is=weather%3Drain").is(http.StatusOK).holds("Must be a dimension")
	vic.get("/traffic?is=policy%3Dnone").is(http.StatusOK).holds("There is no policy of that name")
	vic.get("/traffic?not=policy%3Dnone").is(http.StatusOK).holds("uptimerobot").lacks("There is no policy of that name")
	vic.get("/traffic?is=policy%3D%23999").is(http.StatusOK).holds("#999").lacks("There is no policy of that name")
	vic.get("/v1/traffic/by/path/export?format=csv&not=path%3D/health").is(http.StatusOK).holds("/prices/{id},340,40,300,0,0,0,0")
}

// TestTrafficLinksKeepValues has values and keys with the characters that filters and patterns give a
// meaning: the links of the page lead to these values, and to a block of this key only.
func TestTrafficLinksKeepValues(t *testing.T) {
	n := newNode(t)
	for _, user := range []string{"user:*", "user:a,b", "user:abc"} {
		n.requested(t, user, map[breakdown.Values]breakdown.Row{
			{"/a*" + user + ",host=b", "cu,rl\\*", "", "GET"}: {Counts: breakdown.Counts{Allowed: 5}, Clients: breakdown.Clients{{Key: user, Count: 5}}},
			{"/a" + user, "curl", "", "POST"}:                 {Counts: breakdown.Counts{Allowed: 2}},
		})
	}
	maria := n.as(t, "maria")
	page := maria.get("/traffic").is(http.StatusOK)
	for _, user := range []string{"user:*", "user:a,b", "user:abc"} {
		only := maria.get(linkBefore(t, page.body, ">/a*"+user+",host=b<")).is(http.StatusOK).holds("/a*" + user + ",host=b").lacks("POST")
		for _, other := range []string{"user:*", "user:a,b", "user:abc"} {
			if other != user {
				only.lacks("/a*" + other)
			}
		}
		maria.get(linkWith(t, only.body, "/blocks/new")).is(http.StatusOK).says("1 key")
		maria.get(linkWith(t, only.body, "/new-policy")).is(http.StatusOK).holds(`>/a\*` + strings.ReplaceAll(user, "*", `\*`))
	}
	maria.get(linkBefore(t, page.body, `>cu,rl\*<`)).is(http.StatusOK).holds("GET").lacks("POST")
	maria.get("/traffic?is=method%3Dget").is(http.StatusOK).holds(",host=b").lacks("POST")
}

// TestTrafficCountsRequestsOnce has checks that were reported too, and rates of refusal that do not depend
// on what is ranked.
func TestTrafficCountsRequestsOnce(t *testing.T) {
	n := newNode(t)
	n.requested(t, "requested", map[breakdown.Values]breakdown.Row{
		{"/login", "curl", "", "POST"}:                           {Counts: breakdown.Counts{Allowed: 60, Limited: 20}},
		{"/login", "curl", "", "POST", "", "", "not_found"}:      {Counts: breakdown.Counts{Reported: 70}},
		{"/only/reported", "curl", "", "GET", "", "", "scanned"}: {Counts: breakdown.Counts{Reported: 30}},
	})
	vic := n.as(t, "vic")
	row := func(query, path string) string {
		t.Helper()
		body := vic.get("/traffic" + query).is(http.StatusOK).body
		_, row, _ := strings.Cut(body, `<tr data-key="`+path+`">`)
		row, _, _ = strings.Cut(row, "</tr>")
		return strings.Join(strings.Fields(tags.ReplaceAllString(row, " ")), " ")
	}
	for _, c := range []struct{ query, path, want string }{
		{"", "/login", "/login 80 25.0% Exclude"},
		{"", "/only/reported", "/only/reported 30 0% Exclude"},
		{"?decision=refused", "/login", "/login 20 25.0% Exclude"},
		{"?decision=allowed", "/login", "/login 60 25.0% Exclude"},
	} {
		if got := row(c.query, c.path); got != c.want {
			t.Errorf("%s of %q: %q, want %q", c.path, c.query, got, c.want)
		}
	}
	vic.get("/traffic?decision=none").holds("Must be one of allowed")
	vic.get("/v1/traffic/by/path").is(http.StatusOK).holds(`"requests":80`)
}

// TestTrafficBoundsWhatWasNotKept ranks by a decision that few of the requests without a value have.
func TestTrafficBoundsWhatWasNotKept(t *testing.T) {
	n := newNode(t)
	table := &breakdown.Table{}
	table.Row(breakdown.Values{"/rare"}).Counts = breakdown.Counts{Allowed: 500, Limited: 3}
	table.Trim(breakdown.Limits{})
	table.Row(breakdown.Values{"/login"}).Counts = breakdown.Counts{Limited: 9}
	n.flushTable(t, "requested", table)
	n.as(t, "vic").get("/traffic?decision=refused").is(http.StatusOK).says("3 more have a value that was not kept; one value may have 3 of them")
}

// TestTrafficOfDeletedPolicies selects one policy that has no name any more by its id, also with a star.
func TestTrafficOfDeletedPolicies(t *testing.T) {
	n := newNode(t)
	n.requested(t, "requested", map[breakdown.Values]breakdown.Row{
		{"/a", "", "", "", "99"}:  {Counts: breakdown.Counts{Allowed: 1}},
		{"/b", "", "", "", "999"}: {Counts: breakdown.Counts{Allowed: 20}},
	})
	vic := n.as(t, "vic")
	for _, query := range []string{"is=policy%3D%2399", "is=policy%3D%2399*", "not=policy%3D%23999", "not=policy%3D%23999,policy%3Dnone"} {
		vic.get("/v1/traffic/by/path?" + query).is(http.StatusOK).holds(`"total":{"requests":1,`)
	}
}

// TestTrafficSaysWhatCannotBeRead has a part of the time that another version has written.
func TestTrafficSaysWhatCannotBeRead(t *testing.T) {
	database := storetest.Migrated.SQLite(t)
	n := newNodeOn(t, database)
	n.requested(t, "requested", map[breakdown.Values]breakdown.Row{{"/login"}: {Counts: breakdown.Counts{Allowed: 1}}})
	vic := n.as(t, "vic")
	vic.get("/v1/traffic/by/path").is(http.StatusOK).holds(`"unread":0`)
	(&storetest.Fixture{URL: database}).Exec(t, "UPDATE breakdowns SET data = X'78'")
	vic.get("/v1/traffic/by/path").is(http.StatusOK).holds(`"unread":1`)
	vic.get("/traffic").is(http.StatusOK).says("What was requested in 1 part of this time could not be read and is missing")
}

// linkWith returns the first address in a page that begins so.
func linkWith(t testing.TB, body, begin string) string {
	t.Helper()
	at := strings.Index(body, `href="`+begin)
	if at < 0 {
		t.Fatalf("no link begins with %s", begin)
	}
	address, _, _ := strings.Cut(body[at+len(`href="`):], `"`)
	return html.UnescapeString(address)
}

// linkBefore returns the address of the last link before a text.
func linkBefore(t testing.TB, body, text string) string {
	t.Helper()
	at := strings.Index(body, text)
	if at < 0 {
		t.Fatalf("the page lacks %s", text)
	}
	return linkWith(t, body[strings.LastIndex(body[:at], `href="`):], "")
}

// linkLabelled returns the address of the link with a label.
func linkLabelled(t testing.TB, body, label, attribute string) string {
	t.Helper()
	at := strings.Index(body, `aria-label="`+label+`"`)
	if at < 0 {
		t.Fatalf("there is no link %q", label)
	}
	begin := strings.LastIndex(body[:at], attribute+`="`) + len(attribute) + 2
	end := strings.Index(body[begin:], `"`)
	return strings.ReplaceAll(body[begin:begin+end], "&amp;", "&")
}

// TestTrafficTasksInBrowser does by clicks what an operator wants of the page: the monitor is excluded
// by two clicks from the overview, and the agent of a scraper is the condition of a new policy, which
// begins in shadow mode, by two more. The page is as the others are at every width.
func TestTrafficTasksInBrowser(t *testing.T) {
	n := newNode(t)
	n.attack(t)
	rows := map[breakdown.Values]breakdown.Row{
		{"/health", "uptimerobot", "www.example.com", "GET"}:     {Counts: breakdown.Counts{Allowed: 500}, Clients: breakdown.Clients{{Key: "ip:192.0.2.9", Count: 500}}},
		{"/prices/{id}", "scraper", "www.example.com", "GET"}:    {Counts: breakdown.Counts{Allowed: 40, Limited: 300}, Clients: breakdown.Clients{{Key: "ip:203.0.113.6", Count: 40}}, Offenders: breakdown.Clients{{Key: "ip:203.0.113.6", Count: 300}}},
		{"/login", "chrome", "www.example.com", "POST"}:          {Counts: breakdown.Counts{Allowed: 70, Blocked: 20, Reported: 9}, Offenders: breakdown.Clients{{Key: "ip:2001:db8:1:2::/64", Count: 20}}},
		{strings.Repeat("/long-segment", 9), "other", "", "GET"}: {Counts: breakdown.Counts{Allowed: 3}, Clients: breakdown.Clients{{Key: "token:" + strings.Repeat("x", 90), Count: 3}}},
	}
	n.requested(t, "requested", rows)
	b := newBrowser(t, n)
	b.withAxe()
	b.do(chromedp.EmulateViewport(1440, 900))
	b.logIn("maria")
	b.do(chromedp.Navigate(n.url + "/"))
	click := func(selector, then string) {
		t.Helper()
		b.settle()
		b.do(chromedp.Click(chromedp.CSS(selector)))
		b.waitFor(then)
	}
	b.waitFor(`document.querySelector(".head.pulse").innerText.includes("/prices/{id}")`)
	click(`a[href^="/traffic"]`, `document.querySelector("[data-dimension=agent]")`)
	click(`[data-dimension=path] [aria-label="Exclude /health"]`, `!document.querySelector("[data-dimension=path]").innerText.includes("/health")`)
	click(`[data-dimension=agent] tr[data-key=scraper] a`, `document.querySelector("[data-dimension=path]").innerText.includes("/prices") && !document.querySelector("[data-dimension=path]").innerText.includes("/login")`)
	click(`a[href^="/new-policy"]`, `document.querySelector("[name=when_agent]").value.startsWith("scraper\nscraper *\n") && document.querySelector("[name=mode]")`)
	b.screens("traffic", "/traffic")
	b.screens("traffic-filtered", "/traffic?is=agent%3Dscraper%2Cmethod%3DGET&not=path%3D%2Fhealth&decision=refused")
	b.consoleIsClean()
}
