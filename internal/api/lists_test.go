package api

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/wire"
)

// wholeLists are lists that are one page unless a request limits it. add adds seven rows, some at
// the same instant, and names are those of all rows in each order; the first is the default.
var wholeLists = []struct {
	path   string
	add    func(n *testNode)
	orders []string
	names  map[string][]string
	// found are the names of the rows that a search finds.
	found map[string][]string
}{
	{
		path: wire.PathPolicies,
		add: func(n *testNode) {
			for i, name := range []string{"zoo", "customer-b", "customer-a", "50-percent", "x_y"} {
				mode := []rules.Mode{rules.Enforce, rules.Shadow, rules.Off}[i%3]
				n.must(n.as(administer, put, wire.PathPolicies+"/"+name,
					fmt.Sprintf(`{"match":["token:Größe-%d-*","token:it's-%d"],"rules":["%d/s"],"mode":"%s"}`, i, i, i+1, mode)), http.StatusCreated)
				n.clock.Add(time.Duration(i/2) * time.Minute)
			}
			n.must(n.as(administer, put, wire.PathPolicies+"/zoo", `{"match":["token:zoo"],"rules":["9/s"]}`, "If-Match: *"), http.StatusOK)
		},
		orders: []string{"name", "mode", "version", "updated"},
		names: map[string][]string{
			"name":    {"50-percent", "customer-a", "customer-b", "default", "x_y", "zoo"},
			"mode":    {"50-percent", "default", "zoo", "customer-b", "x_y", "customer-a"},
			"version": {"zoo", "50-percent", "customer-a", "customer-b", "default", "x_y"},
			"updated": {"zoo", "x_y", "50-percent", "customer-a", "customer-b", "default"},
		},
		found: map[string][]string{
			"CUSTOMER": {"customer-a", "customer-b"}, "GRÖSSE": {}, "größe-1": {"customer-b"}, "GRÖßE-1": {"customer-b"}, "_": {"x_y"}, "0%": {}, "50-": {"50-percent"},
			"' OR 1=1 --": {}, `\`: {}, `"><script>alert(1)</script>`: {}, "token:zoo": {"zoo"},
		},
	},
}

func TestWholeListsAreSearchedSortedAndPaged(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		for _, list := range wholeLists {
			list.add(n)
			get := func(query url.Values) wire.Page[map[string]any] {
				return read[wire.Page[map[string]any]](t, n.must(n.as(administer, get, list.path+"?"+query.Encode(), ""), http.StatusOK))
			}
			names := func(page wire.Page[map[string]any]) []string {
				names := []string{}
				for _, item := range page.Items {
					names = append(names, item["name"].(string))
				}
				return names
			}
			all := get(nil)
			if want := list.names[list.orders[0]]; !slices.Equal(names(all), want) || all.NextCursor != "" || all.Total == nil || *all.Total != len(want) {
				t.Errorf("%s without parameters: got %v, next %q, total %v, want %v", list.path, names(all), all.NextCursor, all.Total, want)
			}
			for _, order := range list.orders {
				for _, limit := range []int{1, 2, 4, 1000} {
					query := url.Values{"order": {order}, "limit": {fmt.Sprint(limit)}}
					var read []string
					for {
						page := get(query)
						if len(page.Items) > limit || page.Total == nil || *page.Total != len(list.names[order]) {
							t.Fatalf("%s?%s: %d items, total %v", list.path, query.Encode(), len(page.Items), page.Total)
						}
						if read = append(read, names(page)...); page.NextCursor == "" {
							break
						}
						query.Set("cursor", string(page.NextCursor))
					}
					if !slices.Equal(read, list.names[order]) {
						t.Errorf("%s by %s, %d a page: got %v, want %v", list.path, order, limit, read, list.names[order])
					}
				}
				wrong := db.Cursor("no such order", "0", "x", "x")
				for _, cursor := range []string{"!!", "IA", db.Cursor("x"), wrong, db.Cursor(order, "x", "x", "x"), db.Cursor(order, "1", "x")} {
					n.wantProblem(n.as(administer, http.MethodGet, list.path+"?order="+order+"&cursor="+url.QueryEscape(cursor), ""), http.StatusUnprocessableEntity, "cursor")
				}
			}
			for search, want := range list.found {
				page := get(url.Values{"search": {search}})
				if !slices.Equal(names(page), want) || *page.Total != len(want) || page.NextCursor != "" {
					t.Errorf("%s: searching %q: got %v of %d, want %v", list.path, search, names(page), *page.Total, want)
				}
			}
		}
	})
}
