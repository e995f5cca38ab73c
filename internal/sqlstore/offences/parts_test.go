package offences_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/test/storetest"
)

func TestSeenPartsSumsAddressesOfEachSubnet(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", nil)
		n.limited("ip:198.51.0.1", 2)
		n.limited("ip:198.51.100.7", 3)
		n.allowed("ip:198.51.100.9", 4)
		n.allowed("ip:198.51.103.1", 5)
		n.limited("ip:198.52.0.1", 9) // outside the network
		n.limited("ip:2001:db8:7:1::1", 6)
		n.limited("ip:2001:db8:7:2::1", 7)
		n.limited("token:a", 8)
		f.Clock.Advance(2 * time.Minute)
		n.flush()
		for _, tc := range []struct {
			network string
			bits    int
			want    string
		}{
			{"198.51.0.0/16", 24, "198.51.0.0/24 1 0 2; 198.51.100.0/24 2 4 3; 198.51.103.0/24 1 5 0"},
			{"198.51.0.0/16", 22, "198.51.0.0/22 1 0 2; 198.51.100.0/22 3 9 3"}, // bits within a byte
			{"198.51.100.0/24", 32, "198.51.100.7/32 1 0 3; 198.51.100.9/32 1 4 0"},
			{"2001:db8:7::/48", 56, "2001:db8:7::/56 2 0 13"},
			{"::/0", 8, "2000::/8 2 0 13"}, // IPv4 is no part of IPv6
			{"192.0.2.0/24", 32, ""},
		} {
			parts, err := f.Offences.SeenParts(t.Context(), netip.MustParsePrefix(tc.network), tc.bits, f.Clock.Now().Add(-time.Hour), f.Clock.Now())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range parts {
				got = append(got, fmt.Sprintf("%s %d %d %d", p.Network, p.Keys, p.Allowed, p.Refused))
			}
			if text := strings.Join(got, "; "); text != tc.want {
				t.Errorf("%s in parts of /%d: got %q, want %q", tc.network, tc.bits, text, tc.want)
			}
		}
	})
}
