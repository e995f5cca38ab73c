package adminui_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5"

	"github.com/stint-dev/stint/internal/adminui"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/storetest"
)

// outageNode returns a node on a Postgres of its own, which follows the database. Nothing below
// the node gives up a database that does not answer.
func outageNode(t *testing.T) (*node, *servers.PostgresServer) {
	t.Helper()
	server := storetest.DedicatedPostgres(t)
	var n *node
	n = newNodeOn(t, server.URL+"&connect_timeout=600", func(d *adminui.Deps) {
		d.StoreLiveness = httpserver.StoreLiveness{LastAnswer: func() time.Time { return db.LastAnswer(n.store.DB) }, Max: 2 * time.Second}
	})
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go n.catalog.Run(ctx)
	return n, server
}

// fromMemory are the pages that are shown while the database does not answer, each with a text
// that is in memory.
var fromMemory = map[string]string{
	"/":                             "New automatic blocks",
	"/blocks":                       "ip:192.0.2.1",
	"/blocks?q=Too":                 "too many requests",
	"/exemptions":                   "ip:198.51.100.0/24",
	"/policies":                     `href="/policies/default"`,
	"/policies?q=DEF&order=updated": `aria-sort="ascending"><a class="sort" id="sort-name"`,
	"/policies/default":             "Version 1 is active",
	"/key?key=ip:192.0.2.1":         "too many requests",
	"/key?key=ip:192.0.2.99":        "Notes are in the database.",
	"/key?key=ip:192.0.2.7":         "/asked-before",
	"/live":                         "Live",
	"/settings":                     "Settings",
}

func TestPagesWithoutDatabase(t *testing.T) {
	for name, test := range map[string]struct{ away, back func(*servers.PostgresServer) }{
		"stopped": {(*servers.PostgresServer).Stop, (*servers.PostgresServer).Continue},
		"killed":  {(*servers.PostgresServer).Kill, func(s *servers.PostgresServer) { s.Restart(false) }},
	} {
		t.Run(name, func(t *testing.T) {
			n, server := outageNode(t)
			v, stranger := n.as(t, "maria"), n.visitor(t)
			v.post("/blocks", url.Values{"pattern": {"ip:192.0.2.1"}, "reason": {"too many requests"}, "for": {"24h"}}).is(http.StatusSeeOther)
			v.post("/exemptions", url.Values{"pattern": {"ip:198.51.100.0/24"}, "reason": {"office"}, "for": {"24h"}}).is(http.StatusSeeOther)
			v.get("/blocks").is(http.StatusOK).holds("/blocks/new").lacks("Nothing can be changed")
			n.askFor(t, "ip:192.0.2.7", "/asked-before")
			v.get("/v1/keys/requests/ip:192.0.2.7").is(http.StatusOK).holds("/asked-before").lacks("incomplete")
			if name == "stopped" {
				answersWhileStopped(t, v, server)
			} else {
				test.away(server)
				servers.Await(t, "a page from memory", func() bool { return v.get("/blocks").status == http.StatusOK })
				v.get("/v1/keys/requests/ip:192.0.2.7").is(http.StatusOK).holds("/asked-before").holds(`"incomplete":true`)
			}
			v.post("/blocks", url.Values{"pattern": {"ip:192.0.2.2"}, "for": {"24h"}}).is(http.StatusServiceUnavailable).holds("nothing was changed")
			v.get("/blocks").is(http.StatusOK).holds("ip:192.0.2.1").holds("Nothing can be changed").lacks("/blocks/new").lacks(`name="only"`)
			for path, text := range fromMemory {
				v.get(path).is(http.StatusOK).holds(text).holds("1 policy, 1 block and 1 exemption").holds("Nothing can be changed")
			}
			for _, path := range []string{"/audit", "/users", "/offenders"} {
				got := v.get(path).is(http.StatusServiceUnavailable).holds("What still works").holds("1 policy, 1 block and 1 exemption").holds("What to do")
				if got.header.Get("Retry-After") == "" {
					t.Errorf("GET %s: there is no Retry-After", path)
				}
			}
			if got := v.get("/v1/audit").is(http.StatusServiceUnavailable); got.header.Get("Retry-After") == "" || !strings.Contains(got.body, `"code":"unavailable"`) {
				t.Errorf("GET /v1/audit: got %v %s", got.header, got.body)
			}
			// Nobody gets in without the database, and who is not in learns nothing.
			stranger.post("/login", url.Values{"name": {"maria"}, "password": {password}}).is(http.StatusServiceUnavailable).
				holds("No login can be verified").lacks("1 policy").lacks("/blocks")
			stranger.http.Jar.SetCookies(mustURL(t, n.url), []*http.Cookie{{Name: "stint_session", Value: "guessed"}})
			stranger.get("/blocks").is(http.StatusServiceUnavailable).lacks("1 policy").lacks("ip:192.0.2.1")

			test.back(server)
			servers.Await(t, "the pages are those of the database", func() bool {
				got := v.get("/blocks")
				return got.status == http.StatusOK && strings.Contains(got.body, "/blocks/new") && !strings.Contains(got.body, "Nothing can be changed")
			})
		})
	}
}

// Of a longer list only the first page is in order in memory, and the page says so.
func TestListFromMemorySaysThatItIsCut(t *testing.T) {
	n, server := outageNode(t)
	v := n.as(t, "maria")
	for i := range 60 {
		n.block(t, fmt.Sprintf("ip:192.0.2.%d", i), "a list", "jo", blocks.Manual, time.Hour)
	}
	const note = "Only the first 50 are shown while the database does not answer."
	v.get("/blocks").is(http.StatusOK).says("1 to 50 of 60").lacks(note)
	server.Kill()
	servers.Await(t, "a page from memory", func() bool {
		got := v.get("/blocks")
		return got.status == http.StatusOK && strings.Contains(got.body, "Nothing can be changed")
	})
	v.get("/blocks").says("1 to 50 of 60").says(note)
	v.get("/blocks?q=192.0.2.7").says("1 to 1 of 1").lacks("Only the first")
	v.get("/policies").lacks("Only the first")
}

// answersWhileStopped stops the database and tests that three pages and a change are answered before
// a request has used up its time. A machine may be halted for as long, so one of five times is enough.
func answersWhileStopped(t *testing.T, v *visitor, server *servers.PostgresServer) {
	t.Helper()
	for range 5 {
		server.Stop()
		late := time.Now().Add(httpserver.HandlerTimeout)
		for _, path := range []string{"/blocks", "/exemptions", "/policies"} {
			v.get(path).is(http.StatusOK)
		}
		v.post("/blocks", url.Values{"pattern": {"ip:192.0.2.2"}, "for": {"24h"}}).is(http.StatusServiceUnavailable)
		if time.Now().Before(late) {
			return
		}
		server.Continue()
		servers.Await(t, "the pages are those of the database", func() bool { return strings.Contains(v.get("/blocks").body, "/blocks/new") })
	}
	t.Error("the answers always took the time of a whole request")
}

// noWrites is a node whose database has refused writes for two hours, while it can be read.
func noWrites(t *testing.T) *node {
	var n *node
	n = newNode(t, func(d *adminui.Deps) {
		d.Ready = func(context.Context) wire.Readiness {
			return wire.Readiness{Parts: []wire.Part{{Name: "database", Since: wire.At(n.clock.Now().Add(-2 * time.Hour))}}}
		}
	})
	return n
}

func TestPagesSayThatTheDatabaseAcceptsNoWrites(t *testing.T) {
	n := noWrites(t)
	v := n.as(t, "maria")
	for _, path := range []string{"/", "/blocks", "/users", "/live"} {
		v.get(path).is(http.StatusOK).holds("The database accepts no writes.").holds(", 2 h ago").lacks("unreachable")
	}
	v.get("/blocks").holds("/blocks/new") // a change may succeed before the node has noticed
	n.visitor(t).get("/login").is(http.StatusOK).lacks("accepts no writes")
}

// TestPagesOfADatabaseThatAnswersInPart locks the table by which the node learns of changes: pages
// are still read from the database.
func TestPagesOfADatabaseThatAnswersInPart(t *testing.T) {
	n, server := outageNode(t)
	v := n.as(t, "maria")
	other, err := pgx.Connect(t.Context(), server.URL)
	must(t, err)
	defer other.Close(context.Background())
	_, err = other.Exec(t.Context(), "BEGIN; LOCK TABLE revision IN ACCESS EXCLUSIVE MODE")
	must(t, err)
	var page *answer
	servers.Await(t, "the node has given up to follow the database", func() bool {
		page = v.get("/users").is(http.StatusOK) // which another call of this node may answer only later
		return strings.Contains(page.body, "The database answers in part only.")
	})
	page.holds("maria").holds("Nothing can be changed").holds("It answers other calls of this node").
		lacks("Its last answer came").lacks("pages use what this node has in memory")
	_, err = other.Exec(t.Context(), "COMMIT")
	must(t, err)
	servers.Await(t, "the node follows the database", func() bool { return !strings.Contains(v.get("/users").body, "Nothing can be changed") })
}

func mustURL(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	must(t, err)
	return u
}

// TestOutageScreens tests what pages look like while the database does not answer, as TestScreens
// tests them otherwise.
func TestOutageScreens(t *testing.T) {
	n, server := outageNode(t)
	n.fill(t)
	b := newBrowser(t, n)
	b.withAxe()
	b.logIn("maria")
	server.Kill()
	b.do(chromedp.Navigate(n.url + "/"))
	servers.Await(t, "the overview from memory", func() bool {
		b.do(chromedp.Navigate(n.url + "/"))
		return strings.Contains(b.text(), "Nothing can be changed")
	})
	for name, path := range map[string]string{
		"": "/", "-blocks": "/blocks", "-ended": "/blocks?state=ended", "-policies": "/policies", "-policy": "/policies/default",
		"-key": "/key?key=ip:203.0.113.94", "-error": "/audit",
	} {
		b.screens("outage"+name, path)
	}
}

// TestNoWritesScreens tests what pages look like while the database can be read and not written.
func TestNoWritesScreens(t *testing.T) {
	n := noWrites(t)
	n.fill(t)
	b := newBrowser(t, n)
	b.withAxe()
	b.logIn("maria")
	b.screens("no-writes", "/blocks")
}
