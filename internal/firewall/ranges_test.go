package firewall

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/wire"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// spaces are networks of 256 addresses, at both ends of the families and between.
var spaces = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/24"), netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("255.255.255.0/24"),
	netip.MustParsePrefix("::/120"), netip.MustParsePrefix("2001:db8::ff00/120"), netip.MustParsePrefix("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ff00/120"),
}

// anyNetwork draws a network within one of the spaces, or one around it.
func anyNetwork(t *rapid.T) network {
	space := rapid.SampledFrom(spaces).Draw(t, "space")
	bits := max(0, space.Bits()+rapid.IntRange(-2, 8).Draw(t, "bits"))
	address := space.Addr().AsSlice()
	address[len(address)-1] |= rapid.Byte().Draw(t, "address")
	addr, _ := netip.AddrFromSlice(address)
	n := network{prefix: netip.PrefixFrom(addr, bits).Masked(), exempt: rapid.IntRange(0, 3).Draw(t, "exempt") == 0}
	if minutes := rapid.IntRange(0, 3).Draw(t, "minutes"); minutes > 0 && !n.exempt {
		n.expires = start.Add(time.Duration(minutes) * time.Minute)
	}
	return n
}

// refusedUntil is the oracle: it asks every network about one address.
func refusedUntil(networks []network, a netip.Addr) (expires time.Time, refused bool) {
	for _, n := range networks {
		switch {
		case !n.prefix.Contains(a):
		case n.exempt:
			return time.Time{}, false
		case !refused || blocks.IsLater(n.expires, expires):
			expires, refused = n.expires, true
		}
	}
	return expires, refused
}

func TestRangesAgreeWithEachAddress(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		networks := rapid.SliceOfN(rapid.Custom(anyNetwork), 0, 30).Draw(t, "networks")
		ranges := rangesOf(slices.Clone(networks))
		for i, r := range ranges {
			if r.First.Compare(r.Last) > 0 || r.First.BitLen() != r.Last.BitLen() {
				t.Fatalf("%v is not a valid range", r)
			}
			if i == 0 {
				continue
			}
			before := ranges[i-1]
			if before.Last.Compare(r.First) >= 0 {
				t.Fatalf("%v and %v overlap or are out of order", before, r)
			}
			if before.Last.Next() == r.First && before.Expires.Equal(r.Expires) {
				t.Fatalf("%v and %v should be one range", before, r)
			}
		}
		for _, space := range spaces {
			for a := space.Addr(); space.Contains(a); a = a.Next() {
				expires, refused := refusedUntil(networks, a)
				at, found := slices.BinarySearchFunc(ranges, a, func(r Range, a netip.Addr) int {
					switch {
					case r.Last.Compare(a) < 0:
						return -1
					case r.First.Compare(a) > 0:
						return 1
					}
					return 0
				})
				if found != refused || found && !ranges[at].Expires.Equal(expires) {
					t.Fatalf("%s: refused %v until %v, want %v until %v, in %v", a, found, ranges, refused, expires, networks)
				}
			}
		}
	})
}

func TestDifferenceTransformsOneSetIntoTheOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lists := rapid.SliceOfN(rapid.Custom(anyNetwork), 0, 20)
		current, wanted := rangesOf(lists.Draw(t, "current")), rangesOf(lists.Draw(t, "wanted"))
		remove, add := difference(current, wanted, 0)
		got := map[Range]bool{}
		for _, r := range current {
			got[r] = true
		}
		for _, r := range remove {
			if !got[r] {
				t.Fatalf("%v is removed but is not in the current list", r)
			}
			delete(got, r)
		}
		for _, r := range add {
			got[r] = true
		}
		if len(got) != len(wanted) || len(remove)+len(add) > len(current)+len(wanted) {
			t.Fatalf("got %v, want %v", got, wanted)
		}
		for _, r := range wanted {
			if !got[r] {
				t.Fatalf("%v is missing", r)
			}
		}
		if remove, add := difference(wanted, wanted, 0); len(remove)+len(add) > 0 {
			t.Fatalf("equal lists differ: %v, %v", remove, add)
		}
	})
}

// The ranges that have not timed out are those that a later computation returns.
func TestActiveRangesEqualRecomputedOnes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		networks := rapid.SliceOfN(rapid.Custom(anyNetwork), 0, 20).Draw(t, "networks")
		later := start.Add(90 * time.Second)
		var left []network
		for _, n := range networks {
			if n.exempt || n.expires.IsZero() || later.Before(n.expires) {
				left = append(left, n)
			}
		}
		if got, want := activeOf(rangesOf(networks), later), rangesOf(left); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func ranges(text string) (all []Range) {
	for _, r := range strings.Fields(text) {
		first, last, found := strings.Cut(r, "-")
		if !found {
			last = first
		}
		all = append(all, Range{First: netip.MustParseAddr(first), Last: netip.MustParseAddr(last)})
	}
	return all
}

// originsOf knows two origins.
func originsOf(o keys.Origin, limit int) ([]netip.Prefix, bool) {
	switch {
	case o.ASN == 64500 && limit == maxOriginNetworks:
		return []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}, true
	case o.Country.String() == "NL" && limit > maxOriginNetworks:
		return []netip.Prefix{netip.MustParsePrefix("198.51.100.0/25")}, true
	}
	return nil, false
}

func TestWantedRangesOfBlocks(t *testing.T) {
	for name, row := range map[string]struct {
		blocks, exemptions, never string
		want                      string
		notAddresses, every       int
		origins                   int
	}{
		"addresses and networks":          {blocks: "ip:203.0.113.7 ip:198.51.100.0/24 ip:2001:db8::/126", want: "198.51.100.0-198.51.100.255 203.0.113.7 2001:db8::-2001:db8::3"},
		"an exemption inside":             {blocks: "ip:203.0.113.0/29", exemptions: "ip:203.0.113.3", want: "203.0.113.0-203.0.113.2 203.0.113.4-203.0.113.7"},
		"an exemption around":             {blocks: "ip:203.0.113.7", exemptions: "ip:203.0.113.0/24"},
		"all addresses exempt":            {blocks: "ip:203.0.113.7 ip:2001:db8::/64", exemptions: "ip:*"},
		"everything exempt":               {blocks: "ip:203.0.113.7 ip:2001:db8::/64", exemptions: "*"},
		"an exemption of a token":         {blocks: "ip:203.0.113.7", exemptions: "token:*", want: "203.0.113.7"},
		"never refused":                   {blocks: "ip:203.0.113.0/31", never: "203.0.113.1/32", want: "203.0.113.0"},
		"loopback":                        {blocks: "ip:127.0.0.1 ip:::1/128 ip:126.0.0.0/7", want: "126.0.0.0-126.255.255.255"},
		"IPv6 link-local and unspecified": {blocks: "ip:fe80::1/128 ip:::/128"},
		"other keys":                      {blocks: "token:abc token:* plain host:203.0.113.7", notAddresses: 4},
		"origins":                         {blocks: "asn:64500 ip:198.51.100.0/24", exemptions: "country:NL", want: "198.51.100.128-198.51.100.255 203.0.113.0-203.0.113.255"},
		"origins not known":               {blocks: "asn:1 ip:203.0.113.7", exemptions: "country:XX", want: "203.0.113.7", origins: 2},
		"every address":                   {blocks: "* ip:* ip:0.0.0.0/0 ip:::/0", every: 4},
		"invalid patterns":                {blocks: "ip:203.0.113.7;flush ip:1.2.3.4/33 ip:203.0.113.7/24 ip:fe80::1%lo"},
	} {
		t.Run(name, func(t *testing.T) {
			known := entries{}
			add := func(kind, patterns string) {
				for _, p := range strings.Fields(patterns) {
					known.put(&wire.Entry{ID: kind + p, Kind: kind, Pattern: p}, 1)
				}
			}
			add("block", row.blocks)
			add("exemption", row.exemptions)
			var never []netip.Prefix
			for _, text := range strings.Fields(row.never) {
				never = append(never, netip.MustParsePrefix(text))
			}
			got, _, sum := known.wanted(start, never, originsOf)
			if !slices.Equal(got, ranges(row.want)) {
				t.Errorf("got %v, want %s", got, row.want)
			}
			if sum.NotAddresses != row.notAddresses || sum.EveryAddress != row.every || sum.Origins != row.origins || sum.IPv4+sum.IPv6 != len(got) {
				t.Errorf("the summary is %+v, want %d patterns of no addresses, %d of every address and %d unknown origins", sum, row.notAddresses, row.every, row.origins)
			}
		})
	}
}

func TestEntriesApplyChanges(t *testing.T) {
	known := entries{}
	known.put(&wire.Entry{ID: "a", Kind: "block", Pattern: "ip:203.0.113.1"}, 5)
	for _, step := range []struct {
		name, object, before, after string
		revision                    int64
		complete                    bool
		want                        string
	}{
		{"added", "block", ``, `{"id":"b","kind":"block","pattern":"ip:203.0.113.3"}`, 6, true, "203.0.113.1 203.0.113.3"},
		{"an older state", "block", ``, `{"id":"a","kind":"block","pattern":"ip:203.0.113.1","ended_at":"2026-01-01T00:00:00Z"}`, 4, true, "203.0.113.1 203.0.113.3"},
		{"ended", "block", ``, `{"id":"a","kind":"block","pattern":"ip:203.0.113.1","ended_at":"2026-01-01T00:00:00Z"}`, 7, true, "203.0.113.3"},
		{"replaced", "block", `{"id":"b","kind":"block","pattern":"ip:203.0.113.3"}`, `{"id":"c","kind":"block","pattern":"ip:203.0.113.5"}`, 8, true, "203.0.113.5"},
		{"exempt", "exemption", ``, `{"id":"d","kind":"exemption","pattern":"ip:203.0.113.0/24"}`, 9, true, ""},
		{"undone", "exemption", `{"id":"d","kind":"exemption","pattern":"ip:203.0.113.0/24"}`, ``, 10, true, "203.0.113.5"},
		{"an import", "block", ``, `{"created":3}`, 11, false, "203.0.113.5"},
		{"a policy", "policy", `{"id":"c","pattern":"x"}`, ``, 12, true, "203.0.113.5"},
		{"a restored backup", "database", ``, ``, 13, false, "203.0.113.5"},
		{"no JSON", "block", `{`, `[]`, 14, false, "203.0.113.5"},
	} {
		complete := known.apply(&wire.AuditEntry{Object: step.object, Before: jsontext.Value(step.before), After: jsontext.Value(step.after), Revision: step.revision})
		got, _, _ := known.wanted(start, nil, nil)
		if complete != step.complete || !slices.Equal(got, ranges(step.want)) {
			t.Errorf("%s: got %v, %v; want %v, %s", step.name, complete, got, step.complete, step.want)
		}
	}
}

func TestTimeoutFormatsForNft(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0d0s1ms", -time.Hour: "0d0s1ms", time.Millisecond: "0d0s1ms", 90 * time.Second: "0d90s0ms", 25*time.Hour + 1500*time.Millisecond: "1d3601s500ms", farFuture: "36500d0s0ms",
	} {
		if got := timeout(d); got != want {
			t.Errorf("%s: got %s, want %s", d, got, want)
		}
	}
}

func TestLayoutIsValidated(t *testing.T) {
	good := Layout{Table: "stint", Chain: "stint", Hook: "input"}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for _, bad := range []Layout{
		{Table: "", Chain: "stint", Hook: "input"}, {Table: "stint; flush ruleset", Chain: "stint", Hook: "input"},
		{Table: "stint", Chain: "a\nb", Hook: "input"}, {Table: "stint", Chain: "stint", Hook: "output"}, {Table: strings.Repeat("a", 65), Chain: "stint", Hook: "input"},
	} {
		if bad.Validate() == nil {
			t.Errorf("Validate accepts %+v", bad)
		}
	}
}

func TestParseElement(t *testing.T) {
	for text, want := range map[string]Range{
		`"203.0.113.7"`: {First: netip.MustParseAddr("203.0.113.7"), Last: netip.MustParseAddr("203.0.113.7")},
		`{"prefix":{"addr":"2001:db8::","len":126}}`:               {First: netip.MustParseAddr("2001:db8::"), Last: netip.MustParseAddr("2001:db8::3")},
		`{"range":["10.0.0.1","10.0.0.9"]}`:                        {First: netip.MustParseAddr("10.0.0.1"), Last: netip.MustParseAddr("10.0.0.9")},
		`{"elem":{"val":"10.0.0.1","timeout":60,"expires":9}}`:     {First: netip.MustParseAddr("10.0.0.1"), Last: netip.MustParseAddr("10.0.0.1"), Expires: start.Add(10 * time.Second)},
		`{"elem":{"val":{"range":["::1","::2"]},"comment":"own"}}`: {First: netip.MustParseAddr("::1"), Last: netip.MustParseAddr("::2")},
	} {
		if got, err := parseElement(jsontext.Value(text), start); err != nil || got != want {
			t.Errorf("parseElement(%s): got %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{`7`, `null`, `{}`, `"x"`, `{"prefix":{"addr":"10.0.0.0","len":33}}`, `{"elem":{}}`, `{"range":["x","y"]}`} {
		if got, err := parseElement(jsontext.Value(text), start); err == nil {
			t.Errorf("parseElement(%s): got %v, want an error", text, got)
		}
	}
}

// BenchmarkWanted shows what one change costs: everything is computed again.
func BenchmarkWanted(b *testing.B) {
	known := entries{}
	for i := range 20_000 {
		a := netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), byte(i * 7)})
		known.put(&wire.Entry{ID: a.String(), Kind: "block", Pattern: "ip:" + a.String(), ExpiresAt: wire.At(start.Add(time.Duration(i) * time.Minute))}, 1)
	}
	for b.Loop() {
		ranges, _, _ := known.wanted(start.Add(-time.Hour), nil, nil)
		if len(ranges) != 20_000 {
			b.Fatal(len(ranges))
		}
	}
}
