package api

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/wire"
)

func TestBlockIsAddedUpdatedAndEnded(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		a := n.must(n.as(operate, post, "/v1/blocks", `{"pattern":"ip:2001:db8::1","reason":"scraping","expires_in":"24h"}`), http.StatusCreated)
		b := read[wire.AddedEntry](t, a)
		if b.Pattern != "ip:2001:db8::/64" || b.Outcome != "created" || len(b.Warnings) != 1 || !strings.Contains(b.Warnings[0], "/128") ||
			b.Author != "test-operate" || b.Source != "manual" || !b.Active || b.ExpiresAt.String() != "2026-01-02T12:34:31.000Z" || a.header.Get("Location") != "/v1/blocks/"+b.ID {
			t.Fatalf("got %s", a.body)
		}
		path := "/v1/blocks/" + b.ID
		p := n.wantProblem(n.as(operate, post, "/v1/blocks", `{"pattern":"ip:2001:db8::/64"}`), http.StatusConflict, "")
		if string(p.More["id"]) != `"`+b.ID+`"` {
			t.Errorf("the problem does not contain the id of the block: %+v", p)
		}
		a = n.must(n.as(operate, post, "/v1/blocks", `{"pattern":"ip:2001:db8::/64","expires_in":"48h","on_conflict":"extend"}`), http.StatusOK)
		if added := read[wire.AddedEntry](t, a); added.Outcome != "extended" || added.ID != b.ID || added.Before == nil {
			t.Fatalf("got %s", a.body)
		}
		changed := read[wire.Entry](t, n.must(n.as(operate, patch, path, `{"reason":"other","expires_at":null}`), http.StatusOK))
		if changed.Reason != "other" || !changed.ExpiresAt.IsZero() {
			t.Fatalf("got %+v", changed)
		}
		n.wantProblem(n.as(operate, patch, path, `{"reason":"late","revision":1}`), http.StatusPreconditionFailed, "")
		ended := read[wire.Entry](t, n.must(n.as(operate, del, path+"?reason="+url.QueryEscape("a mistake"), ""), http.StatusOK))
		if ended.Active || ended.EndedAt.IsZero() || ended.EndedBy != "test-operate" {
			t.Fatalf("got %+v", ended)
		}
		n.wantProblem(n.as(operate, del, path, `{"reason":"again"}`), http.StatusConflict, "")
		page := read[wire.Page[wire.Entry]](t, n.must(n.as(reader, get, "/v1/blocks", ""), http.StatusOK))
		if len(page.Items) != 0 || *page.Total != 0 {
			t.Fatalf("got %+v", page)
		}
		page = read[wire.Page[wire.Entry]](t, n.must(n.as(reader, get, "/v1/blocks?state=ended", ""), http.StatusOK))
		if len(page.Items) != 1 || page.Items[0].ID != b.ID {
			t.Fatalf("got %+v", page)
		}
	})
}

func TestBlocksPageByCursorAndFilter(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		for _, pattern := range []string{"token:a", "token:b", "token:c", "ip:203.0.113.0/24", "token:d"} {
			n.must(n.as(operate, post, "/v1/blocks", `{"pattern":"`+pattern+`"}`), http.StatusCreated)
			n.clock.Add(time.Second)
		}
		var patterns []string
		cursor := ""
		for {
			page := read[wire.Page[wire.Entry]](t, n.must(n.as(reader, get, "/v1/blocks?limit=2"+cursor, ""), http.StatusOK))
			// Only the first page is counted: a client that reads all pages would count all
			// entries for each.
			if isFirst := cursor == ""; isFirst != (page.Total != nil) || isFirst && *page.Total != 5 {
				t.Fatalf("after the cursor %q: got the total %v", cursor, page.Total)
			}
			for _, b := range page.Items {
				patterns = append(patterns, b.Pattern)
			}
			if page.NextCursor == "" {
				break
			}
			cursor = "&cursor=" + url.QueryEscape(string(page.NextCursor))
		}
		if got := strings.Join(patterns, " "); got != "token:d ip:203.0.113.0/24 token:c token:b token:a" {
			t.Fatalf("got %s", got)
		}
		page := read[wire.Page[wire.Entry]](t, n.must(n.as(reader, get, "/v1/blocks?key=ip:203.0.113.7", ""), http.StatusOK))
		if len(page.Items) != 1 || page.Items[0].Pattern != "ip:203.0.113.0/24" {
			t.Fatalf("got %+v", page)
		}
	})
}

func TestExemptionIsAddedUpdatedAndEnded(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		n.must(n.as(operate, post, "/v1/blocks", `{"pattern":"token:bad"}`), http.StatusCreated)
		a := n.must(n.as(operate, post, "/v1/exemptions", `{"pattern":"token:*","reason":"a test","expires_in":"1h","confirm":"token:*"}`), http.StatusCreated)
		e := read[wire.AddedEntry](t, a)
		if len(e.Warnings) != 1 || !strings.Contains(e.Warnings[0], "token:bad") {
			t.Fatalf("got %s", a.body)
		}
		n.must(n.ask(`{"key":"token:bad"}`), http.StatusOK)
		changed := read[wire.Entry](t, n.must(n.as(operate, patch, "/v1/exemptions/"+e.ID, `{"expires_in":"2h","confirm":"token:*"}`), http.StatusOK))
		if changed.ExpiresAt.Sub(start) != 2*time.Hour {
			t.Fatalf("got %+v", changed)
		}
		n.must(n.as(operate, del, "/v1/exemptions/"+e.ID, `{"reason":"over"}`), http.StatusOK)
		n.must(n.ask(`{"key":"token:bad"}`), http.StatusForbidden)
		n.must(n.as(reader, get, "/v1/exemptions/"+e.ID, ""), http.StatusOK)
		if page := read[wire.Page[wire.Entry]](t, n.must(n.as(reader, get, "/v1/exemptions", ""), http.StatusOK)); len(page.Items) != 0 {
			t.Fatalf("got %+v", page)
		}
	})
}
