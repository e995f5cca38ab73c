package keys_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/keys"
)

func TestEverySpellingOfAClientGivesTheSameKey(t *testing.T) {
	for want, spellings := range map[string][]string{
		"ip:203.0.113.7": {
			"ip:203.0.113.7", "ip:203.0.113.7/32", "ip:::ffff:203.0.113.7", "ip:::FFFF:203.0.113.7", "ip:::ffff:cb00:7107",
			"ip:0:0:0:0:0:ffff:203.0.113.7", "ip:::ffff:203.0.113.7%eth0", "ip:::ffff:203.0.113.7/128",
		},
		"ip:2001:db8::/64": {
			"ip:2001:db8::/64", "ip:2001:DB8::/64", "ip:2001:db8:0:0::/64", "ip:2001:0db8:0000:0000:0000:0000:0000:0000/64",
			"ip:2001:db8::1", "ip:2001:DB8::1", "ip:2001:db8::1/128", "ip:2001:db8::1%eth0", "ip:2001:db8:0:0:ffff:ffff:ffff:ffff",
			"ip:2001:db8::192.0.2.1", "ip:2001:db8::",
		},
		"ip:::/64":     {"ip:::1", "ip:::", "ip:0:0:0:0:0:0:0:1", "ip:::/64"},
		"ip:fe80::/64": {"ip:fe80::1%eth0", "ip:fe80::2%*", "ip:fe80::3"},
		"token:a b*\\": {"token:a b*\\"},
		"batch":        {"batch"},
		"host:Ünïcode": {"host:Ünïcode"},
		"v1.2.3.4":     {"v1.2.3.4"},
		"1.2.3.4.5":    {"1.2.3.4.5"},
		"ab:cd:ef":     {"ab:cd:ef"},
	} {
		for _, text := range spellings {
			k, err := keys.Parser{}.Key(text)
			if err != nil || k.String() != want {
				t.Errorf("Key(%q) = %q, %v; want %q", text, k, err, want)
			}
		}
	}
}

func TestParseKeyRejectsBadInputAndSaysWhatIsAllowed(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"nothing":                          {"", "is empty"},
		"513 bytes":                        {"a:" + strings.Repeat("x", 511), "513 bytes; at most 512"},
		"a NUL byte":                       {"token:a\x00b", "U+0000 at byte 7"},
		"a new line":                       {"token:a\n", "U+000A at byte 7"},
		"a delete character":               {"token:\x7f", "U+007F"},
		"a control character beyond ASCII": {"token:é\u0085", "U+0085 at byte 8"},
		"bytes that are not UTF-8":         {"token:\xff", "not valid UTF-8"},
		"half a surrogate":                 {"token:\xed\xa0\x80", "not valid UTF-8"},
		"a kind in upper case":             {"IP:203.0.113.7", `kinds are lower case: "ip"`},
		"a kind with a blank":              {" ip:203.0.113.7", "bad kind"},
		"a kind that begins with a digit":  {"2fa:x", "bad kind"},
		"no kind before the colon":         {":x", "begins with a colon"},
		"no value":                         {"token:", `nothing after "token:"`},
		"a bad address":                    {"ip:300.1.1.1", "bad address"},
		"an octet with a leading zero":     {"ip:010.0.0.1", "bad address"},
		"a name for an address":            {"ip:localhost", "bad address"},
		"blanks around an address":         {"ip: 203.0.113.7", "bad address"},
		"an address with a port":           {"ip:203.0.113.7:443", "has a port; write ip:203.0.113.7"},
		"an IPv6 address with a port":      {"ip:[2001:db8::1]:443", "has a port; write ip:2001:db8::1"},
		"an address in brackets":           {"ip:[2001:db8::1]", "has brackets; write ip:2001:db8::1"},
		"an address without its kind":      {"203.0.113.7", "without its kind; write ip:203.0.113.7"},
		"an IPv6 address without its kind": {"fe80::1", "without its kind; write ip:fe80::1"},
		"a number for a kind":              {"2001:db8::1", "without its kind; write ip:2001:db8::1"},
		"the shortest address":             {"::1", "without its kind; write ip:::1"},
		"a v4-mapped one without its kind": {"::ffff:203.0.113.7", "write ip:203.0.113.7"},
		"a network without its kind":       {"203.0.113.0/24", "is a network without its kind"},
		"an IPv4 network":                  {"ip:203.0.113.9/24", "a key is one address, for example ip:203.0.113.9"},
		"a v4-mapped network":              {"ip:::ffff:203.0.113.0/120", "a key is one address"},
		"an IPv6 network of another size":  {"ip:2001:db8::/48", "counted by /64"},
		"an IPv6 network with host bits":   {"ip:2001:db8::1/64", "write ip:2001:db8::/64"},
		"a network across families":        {"ip:::ffff:0:0/64", "mixes IPv4 and IPv6"},
		"an invalid network":               {"ip:203.0.113.0/33", "bad network"},
		"a zone in a network":              {"ip:fe80::%eth0/64", "bad network"},
	} {
		t.Run(name, func(t *testing.T) {
			k, err := keys.Parser{}.Key(c.text)
			var wrong *keys.Error
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Key(%q) = %q, %v; want a *keys.Error with %q", c.text, k, err, c.want)
			}
		})
	}
}

func TestIPv6KeyHasTheConfiguredLength(t *testing.T) {
	for bits, want := range map[int]string{
		0: "ip:2001:db8:1:2::/64", 48: "ip:2001:db8:1::/48", 56: "ip:2001:db8:1::/56", 128: "ip:2001:db8:1:2:3::4",
		-1: "ip:2001:db8:1:2::/64", 999: "ip:2001:db8:1:2:3::4",
	} {
		p := keys.Parser{IPv6Bits: bits}
		k, err := p.Key("ip:2001:db8:1:2:3::4")
		if err != nil || k.String() != want {
			t.Errorf("by /%d the key is %q, %v; want %q", bits, k, err, want)
		}
		if again, err := p.Key(k.String()); err != nil || again.String() != want {
			t.Errorf("by /%d, %q parsed again is %q, %v", bits, k, again, err)
		}
		if full, _ := k.Network(); full != netip.MustParsePrefix("2001:db8:1:2:3::4/128") {
			t.Errorf("by /%d the network is %v, want the full address", bits, full)
		}
	}
}

func TestAddressGivesTheSameKeyAsItsText(t *testing.T) {
	for _, text := range []string{"203.0.113.7", "::ffff:203.0.113.7", "2001:db8::1", "fe80::1%eth0"} {
		if got, want := (keys.Parser{}).AddressKey(netip.MustParseAddr(text)), mustKey(t, "ip:"+text); got != want {
			t.Errorf("AddressKey(%s) = %v, want %v", text, got, want)
		}
	}
	if k := (keys.Parser{}).AddressKey(netip.Addr{}); !k.IsZero() {
		t.Errorf("the zero address has the key %q", k)
	}
}

func TestKindIsTheTextBeforeTheFirstColon(t *testing.T) {
	for text, want := range map[string]string{"token:a:b": "token", "batch": "", "ip:2001:db8::1": "ip"} {
		if got := mustKey(t, text).Kind(); got != want {
			t.Errorf("the kind of %s is %q, want %q", text, got, want)
		}
	}
}

func TestErrorMessagesAreSafeToPrint(t *testing.T) {
	for _, text := range []string{"\x1b[31m:x", "\u202e:x", "\u202e*", "a\u202e*b", "tok\u202een*", "ip:\u202e*", "ip:fe80::1%\u202e:80", "ip:[fe80::1%\u202e]", "fe80::1%\u202e"} {
		for _, parse := range []func(string) error{
			func(s string) error { _, err := keys.Parser{}.Key(s); return err },
			func(s string) error { _, err := keys.Parser{}.Pattern(s); return err },
		} {
			if err := parse(text); err != nil && strings.ContainsAny(err.Error(), "\x1b\u202e\n") {
				t.Errorf("the message about %q repeats it unescaped: %q", text, err)
			}
		}
	}
}

func FuzzKey(f *testing.F) {
	for _, seed := range []string{
		"ip:203.0.113.7", "ip:::ffff:203.0.113.7", "ip:2001:DB8::1%eth0", "ip:2001:db8::/64", "ip:10.0.0.1/32", "token:a*\\", "fe80::1",
		"203.0.113.7", "IP:1.2.3.4", "batch", "a:\x00", "a:\xff", ":", "ip:", "ip:[::1]:80", "user:Zoë",
	} {
		f.Add(seed, 64)
	}
	f.Fuzz(func(t *testing.T, text string, bits int) {
		p := keys.Parser{IPv6Bits: bits}
		k, err := p.Key(text)
		if err != nil {
			return
		}
		again, err := p.Key(k.String())
		if err != nil || again.String() != k.String() {
			t.Fatalf("%q is %q, which parsed again is %q, %v", text, k, again, err)
		}
		own := keys.PatternOf(k)
		if back, err := p.Pattern(own.String()); err != nil || back.String() != own.String() {
			t.Fatalf("the pattern %q of %q reads back as %q, %v", own, k, back, err)
		}
		if !own.Matches(k) {
			t.Fatalf("the pattern %q does not select its own key %q", own, k)
		}
	})
}
