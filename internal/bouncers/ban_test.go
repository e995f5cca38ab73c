package bouncers

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/blocks"
)

func TestDurationIsRoundedUpToWholeSeconds(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for left, want := range map[time.Duration]time.Duration{
		time.Hour: time.Hour, time.Second + time.Nanosecond: 2 * time.Second, time.Millisecond: time.Second, 0: time.Second, -time.Minute: time.Second,
	} {
		if got := (Ban{Expires: now.Add(left)}).Duration(now); got != want {
			t.Errorf("Duration %s before the end: got %s, want %s", left, got, want)
		}
	}
	for _, expires := range []time.Time{{}, now.AddDate(20, 0, 0), now.AddDate(293, 0, 0), blocks.LastExpiry} {
		if got := (Ban{Expires: expires}).Duration(now); got != permanentFor {
			t.Errorf("a ban until %s lasts %s, want %s", expires, got, permanentFor)
		}
	}
}

func TestBanIDsAreStableAndFitIntoFloatingPoint(t *testing.T) {
	one := Ban{Value: "192.0.2.1", entry: "0193a000-0000-7000-8000-000000000001"}
	extended := one
	extended.Expires = time.Unix(1_800_000_000, 0)
	if one.Number() != extended.Number() || one.Number() <= 0 || one.Number() >= 1<<53 {
		t.Errorf("the numbers before and after an extension are %d and %d, want them equal, positive and below 2^53", one.Number(), extended.Number())
	}
	part := Ban{Value: "192.0.2.0/25", entry: one.entry, isPart: true}
	again := part
	again.Reason = "another"
	if part.UUID() == one.UUID() || part.UUID() != again.UUID() || part.Number() == one.Number() {
		t.Errorf("the ids of a part are %s and %d, want stable ones other than those of the whole", part.UUID(), part.Number())
	}
}

func TestUserAgentIsNamedInPlainText(t *testing.T) {
	for agent, want := range map[string]string{
		"crowdsec-firewall-bouncer/v0.0.25-debian": "crowdsec-firewall-bouncer v0.0.25-debian",
		"Go-http-client/1.1 (linux)":               "Go-http-client 1.1",
		"":                                         " ",
		"a\x1b[31m\n/1\x00":                        "a[31m 1",
		"ü/ß":                                      " ",
		strings.Repeat("x", 500) + "/" + strings.Repeat("1", 500): strings.Repeat("x", maxAgent) + " " + strings.Repeat("1", maxAgent),
	} {
		if kind, version := ParseAgent(agent); kind+" "+version != want {
			t.Errorf("%q: %q %q, want %q", agent, kind, version, want)
		}
	}
}

// The parts of a network and the holes in it add up to the network, without overlaps.
func TestNetworkIsSplitAroundItsExemptions(t *testing.T) {
	base := netip.MustParseAddr("192.0.2.0")
	draw := func(r *rapid.T, label string) netip.Prefix {
		a := netip.AddrFrom4([4]byte{192, 0, 2, byte(rapid.IntRange(0, 15).Draw(r, label))})
		return netip.PrefixFrom(a, rapid.IntRange(28, 32).Draw(r, label+" bits")).Masked()
	}
	rapid.Check(t, func(r *rapid.T) {
		network := draw(r, "network")
		var exempt []netip.Prefix
		for range rapid.IntRange(0, 4).Draw(r, "holes") {
			exempt = append(exempt, draw(r, "hole"))
		}
		h := newHoles(append([]netip.Prefix(nil), exempt...))
		parts := h.cut(network)
		for a, n := base, 0; n < 16; a, n = a.Next(), n+1 {
			isExempt, covered := false, 0
			for _, e := range exempt {
				isExempt = isExempt || e.Contains(a)
			}
			for _, p := range parts {
				if p.Contains(a) {
					covered++
				}
			}
			want := 0
			if network.Contains(a) && !isExempt {
				want = 1
			}
			if covered != want {
				r.Fatalf("%s is in %d of %v, want %d; %v without %v", a, covered, parts, want, network, exempt)
			}
			if part, free := h.around(network, a); network.Contains(a) && free != (want == 1) || free && network.Contains(a) && !part.Contains(a) {
				r.Fatalf("around %s: %v %v", a, part, free)
			}
		}
	})
}
