package api

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// wholeLists are lists that are one page unless a request limits it. add adds rows, some at the
// same instant, and names are theirs in each order; the first is the default.
var wholeLists = []struct {
	path   string
	add    func(n *testNode)
	orders []string
	names  map[string][]string
	// found are the names of the rows that a search finds.
	found map[string][]string
	// filtered are the names of the rows that another parameter finds.
	filter   string
	filtered []string
}{
	{
		path: wire.PathPolicies,
		add: func(n *testNode) {
			for i, name := range []string{"zoo", "customer-b", "customer-a", "50-percent", "x_y"} {
				mode := []rules.Mode{rules.Enforce, rules.Shadow, rules.Off}[i%3]
				n.must(n.as(administer, put, wire.PathPolicies+"/"+name+"?confirm="+name,
					fmt.Sprintf(`{"match":["token:Größe-%d-*","token:it's-%d"],"rules":["%d/s"],"mode":"%s"}`, i, i, i+1, mode)), http.StatusCreated)
				n.clock.Add(time.Duration(i/2) * time.Minute)
			}
			n.must(n.as(administer, put, wire.PathPolicies+"/zoo?confirm=zoo", `{"match":["token:zoo"],"rules":["9/s"]}`, "If-Match: *"), http.StatusOK)
		},
		orders: []string{"name", "mode", "version", "updated"},
		names: map[string][]string{
			"name":    {"50-percent", "customer-a", "customer-b", "x_y", "zoo"},
			"mode":    {"50-percent", "zoo", "customer-b", "x_y", "customer-a"},
			"version": {"zoo", "50-percent", "customer-a", "customer-b", "x_y"},
			"updated": {"zoo", "x_y", "50-percent", "customer-a", "customer-b"},
		},
		found: map[string][]string{
			"CUSTOMER": {"customer-a", "customer-b"}, "GRÖSSE": {}, "größe-1": {"customer-b"}, "GRÖßE-1": {"customer-b"}, "_": {"x_y"}, "0%": {}, "50-": {"50-percent"},
			"' OR 1=1 --": {}, `\`: {}, `"><script>alert(1)</script>`: {}, "token:zoo": {"zoo"},
		},
	},
	{
		path: wire.PathTokens,
		add: func(n *testNode) {
			add := func(token string) answer {
				return n.must(n.as(administer, post, wire.PathTokens, `{`+token+`,"scopes":["check"]}`), http.StatusCreated)
			}
			zoo := read[map[string]any](n.T, add(`"name":"Zoo","expires_in":"9d"`))
			for _, token := range []string{`"name":"edge 2"`, `"name":"edge <1>","expires_in":"1d"`, `"name":"ärger","expires_in":"5d"`} {
				add(token)
			}
			n.must(n.as(administer, del, wire.PathTokens+"/"+zoo["id"].(string), ""), http.StatusOK)
		},
		orders: []string{"created", "name", "last_used", "expiry"},
		names: map[string][]string{
			"created":   {"Zoo", "edge 2", "edge <1>", "ärger"},
			"name":      {"edge 2", "edge <1>", "Zoo", "ärger"},
			"last_used": {"Zoo", "edge 2", "edge <1>", "ärger"},
			"expiry":    {"Zoo", "edge <1>", "ärger", "edge 2"},
		},
		found: map[string][]string{
			"EDGE": {"edge 2", "edge <1>"}, "Ä": {"ärger"}, "<1>": {"edge <1>"}, "%": {}, "edge_2": {}, "' OR 1=1 --": {}, `\`: {},
			`"><script>alert(1)</script>`: {},
		},
		filter: "state=ended", filtered: []string{"Zoo"},
	},
	{
		path: wire.PathUsers,
		add: func(n *testNode) {
			for _, user := range []string{`"name":"zoe","role":"viewer"`, `"name":"Ann","role":"admin"`, `"name":"bob","role":"operator"`, `"name":"amy_2","role":"viewer"`} {
				n.must(n.as(administer, post, wire.PathUsers, `{`+user+`,"password":"correct horse"}`), http.StatusCreated)
				if strings.Contains(user, "Ann") {
					n.clock.Add(time.Minute)
				}
			}
		},
		orders: []string{"name", "role", "last_login", "created"},
		names: map[string][]string{
			"name":       {"amy_2", "Ann", "bob", "zoe"},
			"role":       {"Ann", "bob", "amy_2", "zoe"},
			"last_login": {"amy_2", "Ann", "bob", "zoe"},
			"created":    {"amy_2", "bob", "Ann", "zoe"},
		},
		found: map[string][]string{"A": {"amy_2", "Ann"}, "_": {"amy_2"}, "%": {}, "' OR 1=1 --": {}, `\`: {}, `"><script>alert(1)</script>`: {}},
	},
}

func TestWholeListsAreSearchedSortedAndPaged(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		for _, list := range wholeLists {
			path := func(query url.Values) string { return list.path + "?" + query.Encode() }
			get := func(query string) wire.Page[map[string]any] {
				return read[wire.Page[map[string]any]](t, n.must(n.as(administer, get, query, ""), http.StatusOK))
			}
			var before []string // the rows that every node has
			names := func(page wire.Page[map[string]any]) []string {
				names := []string{}
				for _, item := range page.Items {
					if name := item["name"].(string); !slices.Contains(before, name) {
						names = append(names, name)
					}
				}
				return names
			}
			before = names(get(list.path))
			list.add(n)
			all := get(list.path)
			want, total := list.names[list.orders[0]], len(before)+len(list.names[list.orders[0]])
			if !slices.Equal(names(all), want) || all.NextCursor != "" || all.Total == nil || *all.Total != total || len(all.Items) != total {
				t.Errorf("%s without parameters: got %v of %d, next %q, want %v", list.path, names(all), len(all.Items), all.NextCursor, want)
			}
			for _, order := range list.orders {
				for _, limit := range []int{1, 2, 4, 1000} {
					query := url.Values{"order": {order}, "limit": {strconv.Itoa(limit)}}
					var got []string
					for {
						page := get(path(query))
						if len(page.Items) > limit || page.Total == nil || *page.Total != total {
							t.Fatalf("%s: %d items, total %v", path(query), len(page.Items), page.Total)
						}
						if got = append(got, names(page)...); page.NextCursor == "" {
							break
						}
						query.Set("cursor", string(page.NextCursor))
					}
					if !slices.Equal(got, list.names[order]) {
						t.Errorf("%s by %s, %d a page: got %v, want %v", list.path, order, limit, got, list.names[order])
					}
				}
				for _, cursor := range []string{"!!", "IA", paging.Cursor("x"), paging.Cursor("other", "0", "x", "x"), paging.Cursor(order, "x", "x", "x"), paging.Cursor(order, "1", "x")} {
					n.wantProblem(n.as(administer, http.MethodGet, path(url.Values{"order": {order}, "cursor": {cursor}}), ""), http.StatusUnprocessableEntity, "cursor")
				}
			}
			for search, want := range list.found {
				page := get(path(url.Values{"search": {search}}))
				if !slices.Equal(names(page), want) || *page.Total != len(want) || page.NextCursor != "" {
					t.Errorf("%s: searching %q: got %v of %d, want %v", list.path, search, names(page), *page.Total, want)
				}
			}
			if list.filter != "" {
				if page := get(list.path + "?" + list.filter); !slices.Equal(names(page), list.filtered) || *page.Total != len(list.filtered) {
					t.Errorf("%s?%s: got %v, want %v", list.path, list.filter, names(page), list.filtered)
				}
			}
			for query, field := range map[string]string{
				"order=id": "order", "limit=0": "limit", "limit=1001": "limit", "limit=x": "limit", "search=%00": "search", "search=%ff": "search",
				"search=a%0Ab": "search", "search=" + strings.Repeat("a", 1025): "search", "q=a": "q", "search=a&search=b": "search",
			} {
				n.wantProblem(n.as(administer, http.MethodGet, list.path+"?"+query, ""), http.StatusUnprocessableEntity, field)
			}
		}
	})
}
