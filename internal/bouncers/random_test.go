package bouncers

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/keys"
)

// TestFirewallFollowsAnyChanges makes random changes. After two pulls a bouncer must block
// exactly what is blocked, and after one pull nothing else, even if the node has swept expired
// entries.
func TestFirewallFollowsAnyChanges(t *testing.T) {
	t.Run("any reason", func(t *testing.T) { followAnyChanges(t, Filter{}) })
	t.Run("one reason", func(t *testing.T) { followAnyChanges(t, Filter{Containing: []string{"ssh"}}) })
}

func followAnyChanges(t *testing.T, f Filter) {
	patterns := []string{
		"ip:192.0.2.0/28", "ip:192.0.2.0/29", "ip:192.0.2.4/30", "ip:192.0.2.5", "ip:192.0.2.6", "ip:192.0.2.8/29", "ip:192.0.2.12",
	}
	rapid.Check(t, func(r *rapid.T) {
		w := newFixture(t)
		w.filter = f
		// mustDrop reports whether a block that the filter selects refuses an address.
		mustDrop := func(a netip.Addr) bool {
			k := keys.Parser{}.AddressKey(a)
			return w.set.Match(k, w.now).Refuses() && slices.ContainsFunc(w.set.Selecting(blocks.Block, k, w.now), func(e *blocks.Entry) bool {
				return f.Selects(Ban{Scope: ScopeIP, Reason: e.Reason})
			})
		}
		elements := map[string]time.Time{}
		pull := func(complete bool) {
			d := w.delta(w.cursor.Last.Revision == 0)
			for v, ends := range elements {
				if !w.now.Before(ends) {
					delete(elements, v)
				}
			}
			for _, b := range d.Deleted {
				delete(elements, b.Value)
			}
			for b := range d.New {
				if _, is := elements[b.Value]; !is { // as an ipset, which keeps the end that it has
					elements[b.Value] = w.now.Add(b.Duration(w.now))
				}
			}
			w.cursor = d.Cursor
			for a, n := netip.MustParseAddr("192.0.2.0"), 0; n < 16; a, n = a.Next(), n+1 {
				refused := mustDrop(a)
				has := false
				for v, ends := range elements {
					network, err := netip.ParsePrefix(v)
					if err != nil {
						network = netip.PrefixFrom(netip.MustParseAddr(v), 32)
					}
					has = has || w.now.Before(ends) && network.Contains(a)
				}
				if has && !refused || complete && refused && !has {
					r.Fatalf("%s: refused %v, dropped %v; the set is %v at %s", a, refused, has, elements, w.now)
				}
			}
		}
		w.add(blocks.Block, "ip:198.51.100.1", 0)
		pull(false)
		for range rapid.IntRange(1, 60).Draw(r, "steps") {
			kind := rapid.SampledFrom([]blocks.Kind{blocks.Block, blocks.Block, blocks.Exemption}).Draw(r, "kind")
			pattern := rapid.SampledFrom(patterns).Draw(r, "pattern")
			if kind == blocks.Exemption && rapid.IntRange(0, 9).Draw(r, "all") == 0 {
				pattern = "ip:*"
			}
			reason := rapid.SampledFrom([]string{"ssh", "web"}).Draw(r, "reason")
			lasts := time.Duration(rapid.IntRange(1, 60).Draw(r, "seconds")) * time.Second
			i := slices.IndexFunc(w.entries, func(h *blocks.History) bool {
				return h.Kind == kind && h.Pattern.String() == pattern && h.ActiveAt(w.now)
			})
			switch what := rapid.SampledFrom([]string{"set", "set", "set", "end", "pass", "pull", "sweep"}).Draw(r, "what"); {
			case what == "pass":
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 40).Draw(r, "pass")) * time.Second)
			case what == "pull":
				pull(false)
			case what == "sweep":
				w.set.Sweep(w.now)
			case i < 0 && what == "set":
				w.addFor(reason, kind, pattern, lasts)
			case i >= 0 && what == "set":
				w.change(w.entries[i], func(e *blocks.Entry) { e.Expires, e.Reason = w.now.Add(lasts), reason })
			case i >= 0:
				w.end(w.entries[i])
			}
		}
		pull(false)
		pull(true)
	})
}
