package admin_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/bouncers"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/storetest"
)

// firewall is a bouncer that behaves like one in nftables mode: it does not add an address
// again that is in its set, and elements disappear when they expire.
type firewall struct {
	cases    *admin.Bouncers
	caller   admin.BouncerCaller
	filter   bouncers.Filter
	elements map[string]time.Time
	started  bool
}

func newFirewall(f *fixture, token string) *firewall {
	return &firewall{
		cases: f.bouncers(), elements: map[string]time.Time{},
		caller: admin.BouncerCaller{ID: bouncers.ID{TokenID: token, Address: netip.MustParseAddr("192.0.2.200"), Type: "test"}, Version: "v1"},
	}
}

func (f *fixture) bouncers() *admin.Bouncers {
	return &admin.Bouncers{Store: f.store.Bouncers, Entries: f.store.Entries, View: f.catalog, Now: func() time.Time { return f.now }}
}

// block adds a block until an instant, permanent for the zero time.
func (f *fixture) block(t *testing.T, pattern string, until time.Time) string {
	t.Helper()
	return f.add(t, blocks.Block, pattern, blocks.Expiry{Until: until}).ID
}

func (f *fixture) exempt(t *testing.T, pattern string) string {
	t.Helper()
	return f.add(t, blocks.Exemption, pattern, blocks.Expiry{}).ID
}

func (f *fixture) end(t *testing.T, kind blocks.Kind, id string) {
	t.Helper()
	if _, err := f.End(t.Context(), ann, kind, "", id); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) expire(t *testing.T, id string, at time.Time) {
	t.Helper()
	if _, err := f.Update(t.Context(), ann, blocks.Block, id, wire.EntryPatch{ExpiresAt: wire.To(wire.At(at))}); err != nil {
		t.Fatal(err)
	}
}

// pull requests the changes, and returns them as "+value" and "-value".
func (w *firewall) pull(t rapid.TB) string {
	t.Helper()
	a, err := w.cases.Pull(context.Background(), w.caller, !w.started, w.filter)
	if err != nil {
		t.Fatal(err)
	}
	w.started = true
	var all []string
	for v, ends := range w.elements {
		if !a.Now.Before(ends) {
			delete(w.elements, v)
		}
	}
	for _, b := range a.Deleted {
		all = append(all, "-"+b.Value)
		delete(w.elements, b.Value)
	}
	for b := range a.New {
		if slices.Contains(all, "-"+b.Value) {
			t.Fatalf("%s is both new and deleted", b.Value)
		}
		if slices.Contains(all, "+"+b.Value) {
			t.Fatalf("%s is new twice", b.Value)
		}
		all = append(all, "+"+b.Value)
		if _, is := w.elements[b.Value]; !is {
			w.elements[b.Value] = a.Now.Add(b.Duration(a.Now))
		}
	}
	if err := a.Confirm(context.Background(), int64(len(all))); err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// has reports whether the firewall drops an address at an instant.
func (w *firewall) has(a netip.Addr, now time.Time) bool {
	for v, ends := range w.elements {
		network, err := netip.ParsePrefix(v)
		if err != nil {
			network = netip.PrefixFrom(netip.MustParseAddr(v), netip.MustParseAddr(v).BitLen())
		}
		if now.Before(ends) && network.Contains(a) {
			return true
		}
	}
	return false
}

func TestBouncerReceivesChanges(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		w := newFirewall(f, "token")
		pull := func(want string) {
			t.Helper()
			if got := w.pull(t); got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		}
		hour := f.now.Add(time.Hour)
		one := f.block(t, "ip:192.0.2.1", hour)
		pull("+192.0.2.1")
		pull("")
		f.block(t, "ip:198.51.100.0/24", time.Time{})
		f.block(t, "ip:2001:db8::/64", hour)
		f.block(t, "user:alice", hour)
		pull("+198.51.100.0/24 +2001:db8::/64")

		// The block is cut around the exemption, and whole again afterwards.
		exemption := f.exempt(t, "ip:198.51.100.128/25")
		pull("+198.51.100.0/25 -198.51.100.0/24")
		f.end(t, blocks.Exemption, exemption)
		pull("+198.51.100.0/24 -198.51.100.0/25")

		// Longer: announced at once, and again after the old end has passed.
		f.expire(t, one, hour.Add(time.Hour))
		pull("+192.0.2.1")
		pull("")
		f.now = hour
		pull("+192.0.2.1 -2001:db8::/64")
		f.now = f.now.Add(10 * time.Second)
		pull("+192.0.2.1") // the overlap
		f.now = f.now.Add(10 * time.Second)
		pull("")

		// Shorter: deleted, and announced in the next pull.
		f.expire(t, one, f.now.Add(time.Minute))
		pull("-192.0.2.1")
		pull("+192.0.2.1")
		pull("")

		// Another block of the same address replaces it.
		f.end(t, blocks.Block, one)
		one = f.block(t, "ip:192.0.2.1", f.now.Add(time.Minute))
		pull("")
		f.end(t, blocks.Block, one)
		pull("-192.0.2.1")

		// A day later everything is sent again.
		f.now = f.now.Add(24 * time.Hour)
		pull("+198.51.100.0/24")
		w.filter.Scopes = []string{"user"}
		f.block(t, "user:bob", time.Time{})
		pull("+bob")
		w.filter = bouncers.Filter{Origins: []string{"lists"}}
		f.block(t, "ip:192.0.2.9", time.Time{})
		pull("")

		list, err := f.bouncers().List(t.Context(), ann, wire.None{})
		if err != nil || len(list.Items) != 1 || list.Items[0].Sent == 0 || list.Items[0].Version != "v1" || !list.Items[0].LastPulled.Equal(f.now) {
			t.Fatalf("listed %+v, %v", list, err)
		}
	})
}

func TestUnconfirmedAnswerIsSentAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		w := newFirewall(f, "token")
		w.pull(t)
		f.block(t, "ip:192.0.2.1", time.Time{})
		if _, err := w.cases.Pull(t.Context(), w.caller, false, w.filter); err != nil {
			t.Fatal(err)
		}
		if got := w.pull(t); got != "+192.0.2.1" {
			t.Fatalf("the repeated pull got %q, want +192.0.2.1", got)
		}
		other := newFirewall(f, "token")
		other.caller.Address = netip.MustParseAddr("192.0.2.201")
		if got := other.pull(t); got != "+192.0.2.1" {
			t.Fatalf("a pull from another address got %q, want +192.0.2.1", got)
		}
	})
}

func TestLiveBouncerIsStoredOnceAMinute(t *testing.T) {
	f := newFixture(t, storetest.Migrated.SQLite(t))
	w := newFirewall(f, "token")
	if write := w.cases.NoteLive(w.caller, 1); write == nil || write(t.Context()) != nil {
		t.Fatal("NoteLive of the first answer returned no write, or it failed")
	}
	for range 3 {
		if w.cases.NoteLive(w.caller, 2) != nil {
			t.Fatal("NoteLive within the same minute returned a write")
		}
	}
	f.now = f.now.Add(time.Minute)
	if write := w.cases.NoteLive(w.caller, 3); write == nil || write(t.Context()) != nil {
		t.Fatal("NoteLive a minute later returned no write, or it failed")
	}
	list, err := w.cases.List(t.Context(), ann, wire.None{})
	if err != nil || len(list.Items) != 1 || list.Items[0].Sent != 10 || list.Items[0].Mode != string(bouncers.Live) || !list.Items[0].LastPulled.Equal(f.now) {
		t.Errorf("listed %+v, %v", list, err)
	}
}

// TestFirewallHasTheActiveBlocksAfterAnyChanges makes random changes. After two pulls a bouncer
// must block exactly what Stint refuses, and after one pull nothing that Stint allows.
func TestFirewallHasTheActiveBlocksAfterAnyChanges(t *testing.T) {
	patterns := []string{
		"ip:192.0.2.0/28", "ip:192.0.2.0/29", "ip:192.0.2.4/30", "ip:192.0.2.5", "ip:192.0.2.6", "ip:192.0.2.8/29", "ip:192.0.2.12", "ip:*",
	}
	url := storetest.Migrated.SQLite(t)
	f := newFixture(t, url)
	bouncer := 0
	rapid.Check(t, func(r *rapid.T) {
		bouncer++
		w := newFirewall(f, fmt.Sprint(bouncer))
		w.pull(r)
		for range rapid.IntRange(1, 25).Draw(r, "steps") {
			kind := rapid.SampledFrom([]blocks.Kind{blocks.Block, blocks.Block, blocks.Exemption}).Draw(r, "kind")
			pattern := rapid.SampledFrom(patterns[:len(patterns)-1]).Draw(r, "pattern")
			if kind == blocks.Exemption && rapid.IntRange(0, 9).Draw(r, "all") == 0 {
				pattern = "ip:*"
			}
			p, err := f.catalog.Parser().Pattern(pattern)
			if err != nil {
				r.Fatal(err)
			}
			now := f.catalog.Blocks().Of(kind, p, f.now)
			expires := f.now.Add(time.Duration(rapid.IntRange(1, 60).Draw(r, "seconds")) * time.Second)
			switch what := rapid.SampledFrom([]string{"set", "set", "set", "end", "pass"}).Draw(r, "what"); {
			case what == "pass":
				f.now = f.now.Add(time.Duration(rapid.IntRange(1, 40).Draw(r, "pass")) * time.Second)
			case now == nil && what == "set":
				if _, err := f.store.Entries.Add(context.Background(), ann.Actor, blocks.Fail, blocks.Entry{Kind: kind, Pattern: p, Expires: expires}); err != nil {
					r.Fatal(err)
				}
			case now != nil && what == "set":
				if _, err := f.store.Entries.Update(context.Background(), ann.Actor, kind, now.ID, wire.EntryPatch{ExpiresAt: wire.To(wire.At(expires))}); err != nil {
					r.Fatal(err)
				}
			case now != nil:
				if _, err := f.store.Entries.End(context.Background(), ann.Actor, kind, "", now.ID); err != nil {
					r.Fatal(err)
				}
			}
			if rapid.Bool().Draw(r, "pull") {
				w.pull(r)
				w.check(r, f, false)
			}
		}
		w.pull(r)
		w.check(r, f, false)
		w.pull(r)
		w.check(r, f, true)
	})
}

// check compares what the firewall drops with what Stint refuses. complete means that it must
// drop all of that.
func (w *firewall) check(r *rapid.T, f *fixture, complete bool) {
	r.Helper()
	for a, n := netip.MustParseAddr("192.0.2.0"), 0; n < 16; a, n = a.Next(), n+1 {
		refused := f.catalog.Blocks().Match(f.catalog.Parser().AddressKey(a), f.now).Refuses()
		has := w.has(a, f.now)
		if has && !refused || complete && refused && !has {
			r.Fatalf("%s: refused %v, dropped %v; the set is %v at %s", a, refused, has, w.elements, f.now)
		}
	}
}
