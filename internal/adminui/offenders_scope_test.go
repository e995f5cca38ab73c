package adminui_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/wire"
)

// A list that calls a key not blocked while its logins are refused makes people block all of it.
func TestOffendersNameTheScopesInWhichTheyAreBlocked(t *testing.T) {
	n := newNode(t)
	n.send(t, "token:a", "token:a", "token:a")
	n.flush(t)
	ann := audit.Actor{Kind: audit.User, Name: "ann"}
	for _, scope := range []string{"reset", "login"} {
		_, err := n.store.Entries.Add(t.Context(), ann, blocks.Fail, blocks.Entry{
			Kind: blocks.Block, Pattern: pattern(t, "token:a"), EntryTerms: wire.EntryTerms{Scope: scope}, Reason: "guessing", Source: blocks.Manual, Expires: n.clock.Now().Add(time.Hour),
		})
		must(t, err)
	}
	olu := n.as(t, "olu")
	olu.get("/offenders").is(http.StatusOK).says("Only login and reset are blocked")
	list := func() wire.Offender {
		t.Helper()
		var r wire.OffenderReport
		must(t, json.Unmarshal([]byte(olu.get("/v1/offenders").is(http.StatusOK).body), &r))
		if len(r.Items) != 1 {
			t.Fatalf("got %d offenders, want 1", len(r.Items))
		}
		return r.Items[0]
	}
	if o := list(); o.Block != nil || strings.Join(o.BlockedScopes, " ") != "login reset" {
		t.Errorf("got %+v", o)
	}
	_, err := n.store.Entries.Add(t.Context(), ann, blocks.Fail, blocks.Entry{Kind: blocks.Exemption, Pattern: pattern(t, "token:a"), Reason: "ours"})
	must(t, err)
	if o := list(); o.Exemption == nil || o.BlockedScopes != nil {
		t.Errorf("an exempt key: got %+v", o)
	}
}
