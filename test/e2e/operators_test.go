package e2e_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
)

func TestImportRunsBesideChecksAndAppliesOnEveryNode(t *testing.T) {
	everyBackend(t, func(t *testing.T, nodes []*node) {
		const rows = 5_000
		var list strings.Builder
		list.WriteString("# an abuse list\n")
		for i := range rows {
			fmt.Fprintf(&list, "10.%d.%d.%d\n", i>>16, i>>8&255, i&255)
		}
		n := nodes[0]
		stop := make(chan struct{})
		var asking sync.WaitGroup
		for name, n := range nodes {
			asking.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					case <-time.After(2 * time.Millisecond): // leave processor time for the import
					}
					if a, err := try(post, n.check+wire.PathCheck, fmt.Sprintf(`{"key":"token:busy%d_%d"}`, name, i)); err != nil || a.status != 200 {
						t.Errorf("a check during the import: got %d %s %v", a.status, a.body, err)
						return
					}
				}
			})
		}
		a := n.as(post, wire.PathBlocks+"/import?reason=abuse&expires_in=30d", list.String(), "Content-Type: text/plain")
		close(stop)
		asking.Wait()
		if did := read[wire.ImportAnswer](t, a); a.status != 200 || did.Created != rows || did.Invalid != 0 {
			t.Fatalf("got %d: %s", a.status, a.body)
		}
		if d := n.about("ip:10.0.19.31"); d.Decision != wire.Blocked {
			t.Errorf("an imported block does not apply: got %s", d.Decision)
		}
		for _, n := range nodes {
			servers.Await(t, "the last row applies on every node", func() bool { return n.about("ip:10.0.18.31").Decision == wire.Blocked })
		}
		again := read[wire.ImportAnswer](t, n.as(post, wire.PathBlocks+"/import", list.String(), "Content-Type: text/plain"))
		if again.Created != 0 || again.Unchanged != rows {
			t.Errorf("the same import again: got %+v", again)
		}
		if a := n.as(post, wire.PathBlocks+"/import", "10.9.0.1\n10.9.0.999\n", "Content-Type: text/plain"); a.status != 422 {
			t.Errorf("a bad row: got %d: %s", a.status, a.body)
		}
		if d := n.about("ip:10.9.0.1"); d.Decision == wire.Blocked {
			t.Error("a refused import blocks the key of its good row")
		}
	})
}

func TestRevokedTokenIsRefusedOnEveryNode(t *testing.T) {
	everyBackend(t, func(t *testing.T, nodes []*node) {
		n := nodes[0]
		made := read[wire.CreatedToken](t, n.must(201, post, wire.PathTokens, `{"name":"ci","scopes":["read"]}`))
		with := "Authorization: Bearer " + made.Secret
		for _, n := range nodes {
			servers.Await(t, "the token is accepted on every node", func() bool { return n.send(get, n.admin+wire.PathWhoami, "", with).status == 200 })
			if a := n.send(post, n.admin+wire.PathBlocks, `{"pattern":"token:x"}`, with); a.status != 403 {
				t.Errorf("a token with the scope read that adds a block: got %d, want 403", a.status)
			}
		}
		n.must(200, del, wire.PathTokens+"/"+made.ID, "")
		if a := n.send(get, n.admin+wire.PathWhoami, "", with); a.status != 401 {
			t.Errorf("a revoked token on the node that revoked it: got %d, want 401", a.status)
		}
		for _, n := range nodes {
			servers.Await(t, "the token is refused on every node", func() bool { return n.send(get, n.admin+wire.PathWhoami, "", with).status == 401 })
		}
	})
}

func TestUndoOfAnAuditEntryRestoresAnEndedBlock(t *testing.T) {
	everyBackend(t, func(t *testing.T, nodes []*node) {
		n := nodes[0]
		b := read[wire.AddedEntry](t, n.must(201, post, wire.PathBlocks, `{"pattern":"token:bad","reason":"scraping","expires_in":"1h"}`))
		n.must(200, del, wire.PathBlocks+"/"+b.ID, "")
		if d := n.about("token:bad"); d.Decision != wire.Allowed {
			t.Fatalf("the key of an ended block: got %s, want allowed", d.Decision)
		}
		page := read[wire.Page[wire.AuditEntry]](t, n.must(200, get, wire.PathAudit+"?action=block.end", ""))
		if len(page.Items) != 1 || page.Items[0].ObjectID != b.ID {
			t.Fatalf("the audit has %+v", page.Items)
		}
		undo := fmt.Sprintf("%s/%d/undo", wire.PathAudit, page.Items[0].ID)
		n.must(201, post, undo, "")
		if d := n.about("token:bad"); d.Decision != wire.Blocked {
			t.Errorf("the key after the undo: got %s, want blocked", d.Decision)
		}
		if a := n.as(post, undo, ""); a.status != 409 {
			t.Errorf("a second undo: got %d, want 409: %s", a.status, a.body)
		}
	})
}
