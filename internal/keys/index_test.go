package keys_test

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/keys"
)

// drawAddress draws from few addresses, so that networks and keys often overlap.
func drawAddress(t *rapid.T) netip.Addr {
	near := rapid.SampledFrom([]byte{0, 1, 2, 127, 128, 255})
	if rapid.Bool().Draw(t, "IPv4") {
		return netip.AddrFrom4([4]byte{near.Draw(t, "a"), near.Draw(t, "b"), near.Draw(t, "c"), near.Draw(t, "d")})
	}
	var b [16]byte
	b[0] = 0x20
	for _, at := range []int{1, 6, 7, 8, 15} {
		b[at] = near.Draw(t, "byte")
	}
	return netip.AddrFrom16(b)
}

func drawText(t *rapid.T) string {
	text := rapid.StringOfN(rapid.SampledFrom([]rune(`ab*\`)), 0, 6, -1).Draw(t, "text")
	if rapid.IntRange(0, 9).Draw(t, "long") == 0 {
		text += strings.Repeat("a", rapid.IntRange(0, 400).Draw(t, "repeated"))
	}
	return text
}

var escape = strings.NewReplacer(`\`, `\\`, `*`, `\*`)

func drawPattern(t *rapid.T) keys.Pattern {
	text := ""
	switch rapid.SampledFrom([]string{"any", "all addresses", "network", "network", "network", "prefix", "prefix", "exact", "exact"}).Draw(t, "kind") {
	case "any":
		text = "*"
	case "all addresses":
		text = "ip:*"
	case "network":
		addr := drawAddress(t)
		return keys.NetworkPattern(netip.PrefixFrom(addr, rapid.IntRange(0, addr.BitLen()).Draw(t, "bits")))
	case "prefix":
		text = "token:" + escape.Replace(drawText(t)) + "*"
	case "exact":
		text = "token:a" + escape.Replace(drawText(t))
	}
	return mustPattern(t, text)
}

func drawKey(t *rapid.T) keys.Key {
	switch rapid.SampledFrom([]string{"address", "client", "token", "token", "kindless"}).Draw(t, "kind") {
	case "address":
		return keys.Parser{}.AddressKey(drawAddress(t))
	case "client": // an IPv6 client of which only the /64 is known
		return mustKey(t, keys.Parser{}.AddressKey(drawAddress(t)).String())
	case "token":
		return mustKey(t, "token:a"+drawText(t))
	}
	return mustKey(t, "batch")
}

// specificity orders patterns that select the same key, the most specific last.
func specificity(a, b keys.Pattern) int {
	rank := func(p keys.Pattern) (int, int) {
		network, _ := p.Network()
		return -int(p.Kind()), network.Bits() + len(p.Literal())
	}
	aKind, aLength := rank(a)
	bKind, bLength := rank(b)
	return cmp.Or(cmp.Compare(aKind, bKind), cmp.Compare(aLength, bLength))
}

func TestIndexFindsTheSameAsTryingEveryPattern(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := keys.NewIndex[string]()
		model := map[string]keys.Pattern{}
		pattern := rapid.Custom(drawPattern)
		for _, p := range rapid.SliceOfN(pattern, 0, 60).Draw(t, "set") {
			x.Set(p, p.String())
			model[p.String()] = p
		}
		for _, p := range rapid.SliceOfN(pattern, 0, 20).Draw(t, "delete") {
			_, known := model[p.String()]
			if found := x.Delete(p); found != known {
				t.Fatalf("Delete(%s) = %v, want %v", p, found, known)
			}
			delete(model, p.String())
		}
		for text, p := range model {
			if rapid.Bool().Draw(t, "delete "+text) {
				x.Delete(p)
				delete(model, text)
			}
		}
		compareWithModel(t, x, model)
		for _, k := range rapid.SliceOfN(rapid.Custom(drawKey), 1, 10).Draw(t, "keys") {
			compareMatches(t, x, model, k)
		}
	})
}

func compareWithModel(t *rapid.T, x *keys.Index[string], model map[string]keys.Pattern) {
	all := map[string]keys.Pattern{}
	for p, v := range x.All() {
		if p.String() != v {
			t.Fatalf("the value %s is stored under %s", v, p)
		}
		all[v] = p
	}
	if len(all) != len(model) || x.Len() != len(model) {
		t.Fatalf("All yields %d and Len returns %d, want %d", len(all), x.Len(), len(model))
	}
	for text, p := range model {
		if v, found := x.Get(p); !found || v != text {
			t.Fatalf("Get(%s) = %q, %v", p, v, found)
		}
	}
}

func compareMatches(t *rapid.T, x *keys.Index[string], model map[string]keys.Pattern, k keys.Key) {
	var want []keys.Pattern
	for _, p := range model {
		if p.Matches(k) {
			want = append(want, p)
		}
	}
	slices.SortFunc(want, func(a, b keys.Pattern) int { return specificity(b, a) })
	var got []keys.Pattern
	for p := range x.Matching(k) {
		got = append(got, p)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%s is selected by %v, want %v", k, got, want)
	}
	if values := x.AppendMatching(nil, k); fmt.Sprint(values) != fmt.Sprint(want) {
		t.Fatalf("%s has the values %v, want %v", k, values, want)
	}
	best, _, found := x.Best(k)
	if found != (len(want) > 0) || found && best.String() != want[0].String() {
		t.Fatalf("the best for %s is %s, %v, want the first of %v", k, best, found, want)
	}
}

func TestPatternCoversAnotherOnlyIfItSelectsAllItsKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, q, k := drawPattern(t), drawPattern(t), drawKey(t)
		if p.Covers(q) && q.Matches(k) && !p.Matches(k) {
			t.Fatalf("%s covers %s, which selects %s, and does not select it", p, q, k)
		}
		if own := keys.PatternOf(k); p.Covers(own) && !p.Matches(k) {
			t.Fatalf("%s covers %s and does not select %s", p, own, k)
		}
		if !p.Covers(p) {
			t.Fatalf("%s does not cover itself", p)
		}
	})
}

func TestIndexAcceptsPrefixesOfEveryLength(t *testing.T) {
	x := keys.NewIndex[int]()
	text := "token:" + strings.Repeat("ab", (keys.MaxLength-6)/2)
	for n := len("token:"); n <= len(text); n++ {
		x.Set(mustPattern(t, text[:n]+"*"), n)
	}
	got := x.AppendMatching(nil, mustKey(t, text))
	if len(got) != len(text)-5 || !slices.IsSortedFunc(got, func(a, b int) int { return b - a }) {
		t.Errorf("%d prefixes match in the order %v, want %d, the longest first", len(got), got, len(text)-5)
	}
}

func TestIndexMayChangeWhileItsMatchesAreIterated(t *testing.T) {
	x := keys.NewIndex[int]()
	for i, text := range []string{"*", "token:*", "token:a*", "token:a"} {
		x.Set(mustPattern(t, text), i)
	}
	seen := 0
	for p := range x.Matching(mustKey(t, "token:a")) {
		x.Delete(p)
		seen++
	}
	if seen != 4 || x.Len() != 0 {
		t.Errorf("Matching yields %d and %d are left, want 4 and 0", seen, x.Len())
	}
}

// TestIndexMayChangeWhileAllIsIterated iterates over more than one page of each kind of pattern. If
// All held its lock, the test would hang.
func TestIndexMayChangeWhileAllIsIterated(t *testing.T) {
	x := keys.NewIndex[int]()
	parse := func(text string) keys.Pattern {
		p, err := keys.Parser{}.Pattern(text)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	const n = 2_500
	var stays, goes []keys.Pattern
	for i := range n {
		for _, text := range []string{"ip:10.%d.%d.0/24", "ip:2001:db8:%x:%x::/64", "token:%d_%d", "prefix:%d_%d_*"} {
			p := parse(fmt.Sprintf(text, i/256, i%256))
			if i%3 == 0 {
				goes = append(goes, p)
			} else {
				stays = append(stays, p)
			}
			x.Set(p, i)
		}
	}
	stays = append(stays, parse("*"), parse("ip:0.0.0.0/0"))
	x.Set(parse("*"), 0)
	x.Set(parse("ip:0.0.0.0/0"), 0)
	seen := map[keys.Pattern]int{}
	step := 0
	for p := range x.All() {
		seen[p]++
		if step < len(goes) && seen[goes[step]] == 0 {
			x.Delete(goes[step])
		}
		if step++; step < 2*n {
			x.Set(parse(fmt.Sprintf("ip:192.%d.%d.0/24", step/256%256, step%256)), step)
			x.Set(parse(fmt.Sprintf("token:new%d", step)), step)
		}
	}
	for _, p := range stays {
		if seen[p] != 1 {
			t.Errorf("All yields %s %d times, want once", p, seen[p])
		}
	}
	for _, p := range goes {
		if seen[p] > 1 {
			t.Errorf("All yields the deleted %s %d times, want at most once", p, seen[p])
		}
	}
	for range x.All() {
		break // ends the iteration and leaves nothing locked
	}
	x.Set(parse("token:last"), 0)
}
