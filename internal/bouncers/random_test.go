package bouncers

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/wire"
)

// TestFirewallFollowsAnyChanges makes random changes. After two pulls a bouncer must block
// exactly what is blocked, and after one pull nothing else, even if the node has swept expired
// entries.
func TestFirewallFollowsAnyChanges(t *testing.T) {
	t.Run("any reason", func(t *testing.T) { followAnyChanges(t, Filter{}) })
	t.Run("one reason", func(t *testing.T) { followAnyChanges(t, Filter{Containing: []string{"ssh"}}) })
	t.Run("captchas", func(t *testing.T) { followAnyChanges(t, Filter{Captchas: true}) })
	t.Run("captchas of one reason", func(t *testing.T) { followAnyChanges(t, Filter{Captchas: true, Containing: []string{"ssh"}}) })
}

func followAnyChanges(t *testing.T, f Filter) {
	patterns := []string{
		"ip:192.0.2.0/28", "ip:192.0.2.0/29", "ip:192.0.2.4/30", "ip:192.0.2.5", "ip:192.0.2.6", "ip:192.0.2.8/29", "ip:192.0.2.12",
	}
	rapid.Check(t, func(r *rapid.T) {
		w := newFixture(t)
		w.filter = f
		// due returns what blocks that the filter selects do to an address.
		due := func(a netip.Addr) Type {
			k := keys.Parser{}.AddressKey(a)
			if w.set.Match(k, w.now).Exemption != nil {
				return ""
			}
			own, listed := w.set.Challenging()
			for _, of := range []struct {
				Type
				set *blocks.Set
			}{{TypeBan, w.set}, {TypeCaptcha, own}, {TypeCaptcha, listed}} {
				if slices.ContainsFunc(of.set.Selecting(blocks.Block, k, w.now), func(e *blocks.Entry) bool {
					return f.Selects(Ban{Type: of.Type, Scope: ScopeIP, Reason: e.Reason})
				}) {
					return of.Type
				}
			}
			return ""
		}
		type element struct {
			of   Type
			ends time.Time
		}
		elements := map[string]element{}
		// does returns what the bouncer does to an address: by the smallest network that it has.
		does := func(a netip.Addr) (found Type) {
			bits := -1
			for v, e := range elements {
				network, err := netip.ParsePrefix(v)
				if err != nil {
					network = netip.PrefixFrom(netip.MustParseAddr(v), 32)
				}
				if w.now.Before(e.ends) && network.Contains(a) && network.Bits() > bits {
					found, bits = e.of, network.Bits()
				}
			}
			return found
		}
		stricter := map[Type]int{"": 0, TypeCaptcha: 1, TypeBan: 2}
		pull := func(complete bool) {
			d := w.delta(w.cursor.Last.Revision == 0)
			for v, e := range elements {
				if !w.now.Before(e.ends) {
					delete(elements, v)
				}
			}
			for _, b := range d.Deleted {
				delete(elements, b.Value)
			}
			for b := range d.New {
				if has, is := elements[b.Value]; !is || has.of != b.Type { // as an ipset, which keeps the end that it has
					elements[b.Value] = element{b.Type, w.now.Add(b.Duration(w.now))}
				}
			}
			w.cursor = d.Cursor
			for a, n := netip.MustParseAddr("192.0.2.0"), 0; n < 16; a, n = a.Next(), n+1 {
				if want, got := due(a), does(a); stricter[got] > stricter[want] || complete && got != want {
					r.Fatalf("%s: got %q, want %q; the set is %v at %s", a, got, want, elements, w.now)
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
			scope := "none"
			if kind == blocks.Block && f.Captchas {
				scope = rapid.SampledFrom([]string{"none", "none", "", blocks.ChallengeScope}).Draw(r, "scope")
			}
			i := slices.IndexFunc(w.entries, func(h *blocks.History) bool {
				return h.Kind == kind && h.Pattern.String() == pattern && h.ActiveAt(w.now) && (scope == "none") == (h.Action == blocks.Refuse) && (scope == "none" || h.Scope == scope)
			})
			switch what := rapid.SampledFrom([]string{"set", "set", "set", "end", "pass", "pull", "sweep"}).Draw(r, "what"); {
			case what == "pass":
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 40).Draw(r, "pass")) * time.Second)
			case what == "pull":
				pull(false)
			case what == "sweep":
				w.set.Sweep(w.now)
			case i < 0 && what == "set" && scope != "none":
				w.addEntry(blocks.Entry{Reason: reason, Kind: kind, EntryTerms: wire.EntryTerms{Action: blocks.Challenge, Scope: scope}}, pattern, lasts)
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
