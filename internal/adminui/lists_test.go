package adminui_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/test/storetest"
)

// putCustomers adds n policies, customer-00 first.
func (n *node) putCustomers(t testing.TB, count int) {
	t.Helper()
	for i := range count {
		n.put(t, rules.Policy{Name: fmt.Sprintf("customer-%02d", i), Match: []keys.Pattern{pattern(t, fmt.Sprintf("token:%d-*", i))}}, "5/s")
		n.clock.advance(time.Second)
	}
}

var nextPage = regexp.MustCompile(`id="page-next" href="([^"]+)"`)

// next follows the link to the next page of a list.
func (a *answer) next(v *visitor) *answer {
	a.t.Helper()
	link := nextPage.FindStringSubmatch(a.body)
	if link == nil {
		a.t.Fatalf("the page has no link to the next one: %s", a.shown())
	}
	return v.get(html.UnescapeString(link[1])).is(http.StatusOK)
}

func TestPoliciesPageIsSearchedSortedAndPaged(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "maria")
	v.get("/policies").is(http.StatusOK).holds(`placeholder="Name or pattern"`).holds(`<th class="c-policy" aria-sort="ascending">`).lacks(`class="pager"`)
	n.putCustomers(t, 60)
	first := v.get("/policies").is(http.StatusOK).holds("1 to 50 of 61").holds(">customer-00<").lacks(">customer-50<").lacks("First page")
	first.next(v).holds("51 to 61 of 61").holds(">default<").holds(">customer-50<").lacks(">customer-49<").holds("First page").holds(`aria-disabled="true">Next`)
	v.get("/policies?q=TOKEN%3A7-").is(http.StatusOK).holds("1 policy matches").holds(">customer-07<").lacks(">customer-17<").lacks(`class="pager"`)
	found := v.get("/policies?q=customer&order=updated").is(http.StatusOK).holds("60 policies match").holds(`aria-sort="descending"`).lacks(`aria-sort="ascending"`)
	if at, of := strings.Index(found.body, ">customer-59<"), strings.Index(found.body, ">customer-58<"); at < 0 || at > of {
		t.Errorf("the last changed policy is not first: %s", found.shown())
	}
	found.next(v).holds("51 to 60 of 60").holds(`name="order" value="updated"`).holds(`value="customer"`).lacks(">default<").holds(`href="/policies?q=customer"`)
	v.get("/policies?q=nobody").is(http.StatusOK).holds("No policy matches this search.").lacks("<table")
	v.rejectsSearches("/policies", "policies")
}

// The editor lists the policies beside its own: a node may have thousands.
func TestPolicyEditorListsPoliciesBesideItsOwn(t *testing.T) {
	n := newNode(t)
	n.putCustomers(t, 70)
	v := n.as(t, "maria")
	v.get("/policies/customer-60").is(http.StatusOK).holds(`href="/policies/customer-60" aria-current="page"`).holds(">customer-69<").holds(">default<").
		lacks(">customer-20<").holds(">All 71 policies<")
	v.get("/policies/customer-00").is(http.StatusOK).holds(`href="/policies/customer-00" aria-current="page"`).holds(">customer-49<").lacks(">customer-50<")
	v.get("/new-policy").is(http.StatusOK).holds(">customer-49<").lacks(">customer-50<")
}

// names returns the names in the rows of a list of tokens or users.
func (a *answer) names() []string {
	names := []string{}
	for _, row := range regexp.MustCompile(`<td class="first strong" title="([^",]*)`).FindAllStringSubmatch(a.body, -1) {
		names = append(names, html.UnescapeString(row[1]))
	}
	return names
}

func (a *answer) lists(names ...string) *answer {
	a.t.Helper()
	if !slices.Equal(a.names(), names) {
		a.t.Errorf("the page lists %q, want %q: %s", a.names(), names, a.shown())
	}
	return a
}

// action returns the address of a form of the page that begins so.
func (a *answer) action(beginning string) string {
	a.t.Helper()
	found := regexp.MustCompile(`action="(` + regexp.QuoteMeta(beginning) + `[^"]*)"`).FindStringSubmatch(a.body)
	if found == nil {
		a.t.Fatalf("the page has no form for %s: %s", beginning, a.shown())
	}
	return html.UnescapeString(found[1])
}

func TestTokensPageIsSearchedSortedAndPaged(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "maria")
	v.get("/tokens").is(http.StatusOK).holds("There is no active token.").lacks(`class="pager"`)
	for i := range 60 {
		token := storetest.NewToken(fmt.Sprintf("edge-%02dx", i), identity.Check)
		token.Hint = fmt.Sprintf("stint_check_%02dQ", i)
		token.Expires = n.clock.Now().Add(time.Duration(100-i) * time.Hour)
		_, err := n.store.Identities.AddToken(t.Context(), storetest.Operator, token)
		must(t, err)
	}
	first := v.get("/tokens").is(http.StatusOK).holds("1 to 50 of 60").holds(`<th class="c-token" aria-sort="ascending">`)
	if names := first.names(); len(names) != 50 || names[0] != "edge-00x" || names[49] != "edge-49x" {
		t.Errorf("the first page lists %q", names)
	}
	second := first.next(v).holds("51 to 60 of 60").holds("First page")
	if names := second.names(); len(names) != 10 || names[0] != "edge-50x" {
		t.Errorf("the second page lists %q", names)
	}
	v.get("/tokens?q=17q").is(http.StatusOK).holds("1 token matches").lists("edge-17x")
	v.get("/tokens?q=EDGE-1&order=expiry").is(http.StatusOK).holds("10 tokens match").
		lists("edge-19x", "edge-18x", "edge-17x", "edge-16x", "edge-15x", "edge-14x", "edge-13x", "edge-12x", "edge-11x", "edge-10x")

	// A deletion keeps the search, and so does a rotation, which shows the new secret.
	found := v.get("/tokens?q=edge-17x&order=expiry").is(http.StatusOK)
	ask := v.get("/tokens?delete=" + n.tokenID(t, "edge-17x") + "&q=edge-17x&order=expiry").is(http.StatusOK).holds(`href="/tokens?order=expiry&amp;q=edge-17x">Cancel`)
	got := v.post(found.action("/tokens/"+n.tokenID(t, "edge-17x")+"/rotate"), nil).is(http.StatusOK).holds("edge-17x-2").holds(`value="edge-17x"`)
	if got.names(); len(got.names()) != 2 {
		t.Errorf("after the rotation the page lists %q", got.names())
	}
	secret := regexp.MustCompile(identity.SecretPattern).FindString(got.body)
	v.get("/tokens?q=" + secret).is(http.StatusOK).lists("edge-17x-2")
	v.get("/tokens?q=" + secret[:len(secret)-1]).is(http.StatusOK).holds("No active token matches")
	v.post(ask.action("/tokens/"+n.tokenID(t, "edge-17x")+"/delete"), nil).is(http.StatusSeeOther)
	v.get("/tokens?state=ended").is(http.StatusOK).lists("edge-17x").holds("revoked")
	v.get("/tokens?q=edge-17x").lists("edge-17x-2")
	v.get("/tokens?state=ended&q=nobody").is(http.StatusOK).holds("No ended token matches this search.").lacks("<table")
	// The row to confirm is shown wherever it is in the list.
	v.get("/tokens?delete=" + n.tokenID(t, "edge-59x")).is(http.StatusOK).holds("cannot be undone").holds(">edge-59x<")
	v.rejectsSearches("/tokens", "tokens", "state=live")
	// A list that cannot be shown must not hide the secret of a new token: it is refused before.
	v.post("/tokens/"+n.tokenID(t, "edge-05x")+"/rotate?q=%00", nil).is(http.StatusUnprocessableEntity)
	v.get("/tokens?q=edge-05x").lists("edge-05x")
}

func TestUsersPageIsSearchedSortedAndPaged(t *testing.T) {
	n := newNode(t)
	v := n.as(t, "maria")
	v.get("/users").is(http.StatusOK).holds(`aria-sort="ascending"`).lacks(`class="pager"`)
	for i := range 60 {
		_, err := n.store.Identities.AddUser(t.Context(), storetest.Operator, identity.User{Name: fmt.Sprintf("aa-%02d", i), Role: identity.Viewer, PasswordHash: "x"})
		must(t, err)
		n.clock.advance(time.Second)
	}
	first := v.get("/users").is(http.StatusOK).holds("1 to 50 of")
	first.next(v).holds(">maria<").lacks(">aa-49<")
	v.get("/users?q=AA-1&order=created").is(http.StatusOK).holds("10 users match").
		lists("aa-19", "aa-18", "aa-17", "aa-16", "aa-15", "aa-14", "aa-13", "aa-12", "aa-11", "aa-10")
	last := v.get("/users?order=last_login").is(http.StatusOK)
	if names := last.names(); names[0] != "maria" {
		t.Errorf("the last login is not first: %q", names)
	}
	v.get("/users?q=nobody").is(http.StatusOK).holds("No user matches this search.").lacks("<table")

	// Changes keep the search, and a row with an error is shown wherever it is.
	id := n.userID(t, "aa-17")
	open := v.get("/users?edit=" + id + "&q=aa-17").is(http.StatusOK).lists("aa-17")
	saved := v.post(open.action("/users/"+id+"/role"), url.Values{"role": {"operator"}}).is(http.StatusSeeOther)
	if to := saved.header.Get("Location"); to != "/users?done=role&q=aa-17" {
		t.Errorf("got %s, want the same search", to)
	}
	v.post(open.action("/users/"+id+"/password"), url.Values{"password": {"short"}}).is(http.StatusUnprocessableEntity).lists("aa-17").holds("too short")
	v.post("/users/"+n.userID(t, "olu")+"/password", url.Values{"password": {"short"}}).is(http.StatusUnprocessableEntity).holds("too short").holds(">olu<")
	v.post("/users/"+id+"/disable?q=%00", nil).is(http.StatusUnprocessableEntity)
	v.get("/users?q=aa-17").lacks("disabled")
	v.rejectsSearches("/users", "users")
}

// rejectsSearches tests a list of nouns with hostile searches and with parameters that are wrong.
func (v *visitor) rejectsSearches(path, nouns string, wrong ...string) {
	v.t.Helper()
	for _, text := range hostile {
		v.get(path + "?q=" + url.QueryEscape(text)).is(http.StatusOK).lacks("<script>alert").lacks("<img").holds("0 " + nouns + " match")
	}
	for _, query := range append(wrong, "q=%00", "q=a%0Ab", "q="+strings.Repeat("a", 2001), "order=id", "cursor=x") {
		v.get(path + "?" + query).is(http.StatusUnprocessableEntity)
	}
}

// A page of which all rows were deleted is followed by the first.
func TestListBeginsAgainIfItsPageIsGone(t *testing.T) {
	n := newNode(t)
	n.putCustomers(t, 50)
	v := n.as(t, "maria")
	link := nextPage.FindStringSubmatch(v.get("/policies").holds("1 to 50 of 51").body)[1]
	must(t, n.store.Policies.DeletePolicy(t.Context(), storetest.Operator, "default", etag.Any))
	v.get(html.UnescapeString(link)).is(http.StatusOK).holds(">customer-00<").lacks(`class="pager"`)
}

func TestListsAreSortedAndPagedInBrowser(t *testing.T) {
	n := newNode(t)
	n.putCustomers(t, 60)
	b := newBrowser(t, n)
	b.logIn("maria")
	b.show(1440, "/policies?q=customer")
	b.waitFor(`document.querySelector(".policies tbody tr a").textContent === "customer-00"`)
	b.do(chromedp.Click("#sort-updated"))
	b.waitFor(`document.querySelector(".policies tbody tr a").textContent === "customer-59" && document.activeElement.id === "sort-updated"`)
	b.settle()
	b.do(chromedp.Click("#page-next"))
	b.waitFor(`document.querySelector(".pager").textContent.includes("51 to 60 of 60") && location.search.includes("q=customer")`)
	b.settle()
	b.do(chromedp.Click("#list-all"))
	b.waitFor(`document.querySelector(".pager").textContent.includes("1 to 50 of 61") && !location.search.includes("q=") && !document.querySelector("[type=search][name=q]").value`)
	b.consoleIsClean()
}

// Of the blocks only the list is replaced. The head above it must not be that of another list.
func TestHeadOfBlocksFollowsTheFilters(t *testing.T) {
	n := newNode(t)
	n.block(t, "ip:192.0.2.1", "", "", blocks.Manual, time.Hour)
	b := newBrowser(t, n)
	b.logIn("olu")
	b.show(1440, "/blocks")
	b.waitFor(`document.querySelector("#head").innerText.includes("1 active.")`)
	b.do(chromedp.Click("#state-ended"))
	b.waitFor(`location.search.includes("state=ended") && document.querySelector("#head").innerText.includes("0 blocks match")`)
	b.waitFor(`document.querySelector('#head a[href*="export"]').href.includes("state=ended") && document.activeElement.id === "state-ended"`)
	b.do(chromedp.Click("#state-active"))
	b.waitFor(`document.querySelector("#head").innerText.includes("1 active.") && !document.querySelector('#head a[href*="export"]').href.includes("state=ended")`)
	b.consoleIsClean()
}

// Names and reasons are shown with their hidden characters drawn, in tooltips and for screen
// readers too: U+202E reverses what follows it.
func TestTooltipsDrawHiddenCharacters(t *testing.T) {
	n := newNode(t)
	maria := n.as(t, "maria")
	n.block(t, "token:a", hostile[4], hostile[4], blocks.Manual, time.Hour)
	maria.post("/tokens", url.Values{"name": {hostile[4]}, "scopes": {"read"}, "for": {"30d"}}).is(http.StatusOK)
	for _, path := range []string{"/blocks", "/tokens", "/audit"} {
		page := maria.get(path).is(http.StatusOK).holds("gnp.exe")
		page.body = regexp.MustCompile(` value="[^"]*"`).ReplaceAllString(page.body, "") // what is edited stays as it is
		page.lacks("\u202e")
	}
}
