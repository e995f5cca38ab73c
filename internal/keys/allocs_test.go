package keys_test

import (
	"testing"

	"github.com/stint-dev/stint/internal/keys"
)

func TestParseKeyAllocatesAtMostOnce(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		max  float64
	}{
		"a token is not copied":                         {"token:abc", 0},
		"text beyond ASCII is not copied":               {"user:Zoë", 0},
		"a canonical IPv4 address is not copied":        {"ip:203.0.113.7", 0},
		"a canonical IPv6 network is not copied":        {"ip:2001:db8:1:2::/64", 0},
		"an IPv6 address is written once":               {"ip:2001:db8:1:2::3", 1},
		"a v4-mapped address is written once":           {"ip:::ffff:203.0.113.7", 1},
		"a key without a kind is not copied":            {"batch-runner", 0},
		"a key that resembles an address is not copied": {"v1.2.3.4", 0},
	} {
		t.Run(name, func(t *testing.T) {
			var parser keys.Parser
			got := testing.AllocsPerRun(100, func() {
				if _, err := parser.Key(c.text); err != nil {
					t.Fatal(err)
				}
			})
			if got > c.max {
				t.Errorf("parsing %q allocates %v times, want at most %v", c.text, got, c.max)
			}
		})
	}
}

// A node that starts reads a million blocks.
func TestParsingACanonicalNetworkDoesNotAllocate(t *testing.T) {
	for _, text := range []string{"ip:203.0.113.7", "ip:203.0.113.0/24", "ip:2001:db8:1:2::/64"} {
		if got := testing.AllocsPerRun(100, func() { mustPattern(t, text) }); got != 0 {
			t.Errorf("parsing the pattern %q allocates %v times", text, got)
		}
	}
}

func TestLookingUpAllocatesNothing(t *testing.T) {
	x := keys.NewIndex[*int]()
	for _, text := range []string{
		"*", "ip:*", "ip:10.0.0.0/8", "ip:10.1.0.0/16", "ip:10.1.1.1", "ip:2001:db8::/32", "ip:2001:db8::/64",
		"ip:2001:db8::1/128", "token:*", "token:a*", "token:ab*", "token:abc",
	} {
		x.Set(mustPattern(t, text), new(int))
	}
	for _, text := range []string{"ip:10.1.1.1", "ip:192.0.2.1", "ip:2001:db8::1", "ip:2001:db8::/64", "token:abc", "user:x"} {
		k := mustKey(t, text)
		if got := testing.AllocsPerRun(100, func() { x.Best(k) }); got != 0 {
			t.Errorf("Best(%s) allocates %v times", k, got)
		}
		var room [8]*int
		found := 0
		if got := testing.AllocsPerRun(100, func() { found = len(x.AppendMatching(room[:0], k)) }); got != 0 {
			t.Errorf("AppendMatching(%s) allocates %v times", k, got)
		}
		if found == 0 {
			t.Errorf("AppendMatching(%s) found nothing, want at least *", k)
		}
	}
}
