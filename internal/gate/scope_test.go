package gate

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/wire"
)

func TestBlockOfAScopeRefusesOnlyChecksOfTheScope(t *testing.T) {
	const k = "ip:203.0.113.7"
	scope := func(name string) func(*Check) {
		return func(c *Check) { c.Request = conditions.NewRequest("/", "", "", "").InScope(name) }
	}
	n := newNode(t, policy(t, 1, "default", "*", "100/m"))
	network := pattern(t, "ip:203.0.113.0/24")
	b := &blocks.Entry{ID: "login", Kind: blocks.Block, Pattern: network, EntryTerms: wire.EntryTerms{Scope: "login"}, Revision: 1}
	n.Blocks().Apply(b, n.clock())
	for name, want := range map[string]Outcome{"login": Blocked, "search": Allowed, "": Allowed} {
		if d := n.check(t, k, scope(name)); d.Outcome != want || want == Blocked && d.Block != b {
			t.Errorf("in the scope %q: %s by %v", name, d.Outcome, d.Block)
		}
	}
	x, err := n.Explain(t.Context(), key(t, k), "")
	if err != nil || x.Outcome != Allowed || len(x.Blocks) != 1 || x.Blocks[0] != b {
		t.Errorf("the explanation: %+v, %v", x, err)
	}
	for e := range n.Blocks().All(blocks.Block, n.clock()) {
		t.Errorf("All yields the scoped block %s", e.ID)
	}
	if n.Blocks().Size(blocks.Block) != 1 || n.Blocks().Match(key(t, k), n.clock()).Refuses() {
		t.Error("the scoped block is not in Size, or Match refuses without a scope")
	}
	// If a block for every check and one for the scope apply, the one that lasts longer is named.
	all := &blocks.Entry{ID: "all", Kind: blocks.Block, Pattern: network, Expires: n.clock().Add(time.Hour), Revision: 2}
	n.Blocks().Apply(all, n.clock())
	if d := n.check(t, k, scope("login")); d.Block != b {
		t.Errorf("refused by %v", d.Block)
	}
	if d := n.check(t, k, scope("search")); d.Block != all {
		t.Errorf("refused by %v", d.Block)
	}
	ended := *b
	ended.End, ended.Revision = blocks.EndingOf(n.clock(), ""), 3
	n.Blocks().Apply(&ended, n.clock())
	n.advance(2 * time.Hour)
	n.Blocks().Sweep(n.clock())
	if d := n.check(t, k, scope("login")); d.Outcome != Allowed || n.Blocks().Size(blocks.Block) != 0 {
		t.Errorf("after both have ended: %s", d.Outcome)
	}
}
