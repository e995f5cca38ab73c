package adminui_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
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
	for _, text := range hostile {
		v.get("/policies?q=" + url.QueryEscape(text)).is(http.StatusOK).lacks("<script>alert").lacks("<img").holds("0 policies match")
	}
	for _, query := range []string{"q=%00", "q=a%0Ab", "q=" + strings.Repeat("a", 2001), "order=rules", "cursor=x"} {
		v.get("/policies?" + query).is(http.StatusUnprocessableEntity)
	}
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
