package keys_test

import (
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/keys"
)

// TestReadingReadsWhatLooksLikeAnAddressOrRefusesIt has the inputs of operators that once became
// literal keys.
func TestReadingReadsWhatLooksLikeAnAddressOrRefusesIt(t *testing.T) {
	for text, want := range map[string]string{
		"1.2.3.4":                        "ip:1.2.3.4",
		" 1.2.3.4 ":                      "ip:1.2.3.4",
		"ip:1.2.3.4":                     "ip:1.2.3.4",
		"ip: 1.2.3.4":                    "ip:1.2.3.4",
		"1.2.3.0/24":                     "ip:1.2.3.0/24",
		"1.2.3.0 / 24":                   "ip:1.2.3.0/24",
		"2001:db8::1":                    "ip:2001:db8::/64",
		"::ffff:1.2.3.4":                 "ip:1.2.3.4",
		"10.0.0.1-10.0.0.9":              "ip:10.0.0.1, ip:10.0.0.2/31, ip:10.0.0.4/30, ip:10.0.0.8/31",
		"ip:10.0.0.1-ip:10.0.0.2":        "ip:10.0.0.1, ip:10.0.0.2",
		"192.0.2.0-192.0.2.255":          "ip:192.0.2.0/24",
		"198.51.100.96 - 198.51.100.105": "ip:198.51.100.96/29, ip:198.51.100.104/31",
		"0.0.0.0-255.255.255.255":        "ip:0.0.0.0/0",
		"2001:db8::-2001:db8::1":         "ip:2001:db8::/127",
		"1.2.3.4, 1.2.3.5":               "ip:1.2.3.4, ip:1.2.3.5",
		"1.2.3.4,1.2.3.4,":               "ip:1.2.3.4",
		"1.2.3.4, AS64500, RU":           "ip:1.2.3.4, asn:64500, country:RU",
		"AS64500":                        "asn:64500",
		"as 64500":                       "asn:64500",
		"asn:AS64500":                    "asn:64500",
		"RU":                             "country:RU",
		"country:ru":                     "country:RU",
		"*":                              "*",
		"ip:*":                           "ip:*",
		"token:a,b":                      "token:a,b",
		"token:test_*":                   "token:test_*",
		"shop:7":                         "shop:7",
		"fee:1:2":                        "fee:1:2",
		"user42":                         "user42",

		"1.2.3.0/33":            "? ip:1.2.3.0 for the one address, or a network such as ip:1.2.3.0/24",
		"1.2.3.0/255.255.255.0": "? write ip:1.2.3.0/24",
		"1.2.3.9/24":            "? write ip:1.2.3.0/24 for the network or ip:1.2.3.9 for the one address",
		"300.1.1.1":             "? 300 is above 255",
		"ip:300.1.1.1":          "? 300 is above 255",
		"10.01.0.1":             "? without leading zeros",
		"10.1":                  "? write ip:10.1.0.0/16",
		"10.1.0.0.0/16":         "? looks like an IPv4 address and is none",
		"10.1.*":                "? probably mean ip:10.1.0.0/16",
		"10.0.0.1-9":            "? write 10.0.0.1-10.0.0.9",
		"10.0.0.9-10.0.0.1":     "? write 10.0.0.1-10.0.0.9",
		"10.0.0.9-2001:db8::1":  "? mixes IPv4 and IPv6",
		"10.0.0.9-token":        "? whose end is no address",
		"2001:db8::1-2001:dead:ffff:ffff:ffff:ffff:ffff:fffe": "? more than 200 networks",
		"1.2.3.4, 1.2.3.300":           "? 300 is above 255",
		"1.2.3.4, token:a":             `? "token:a" is in a list of addresses`,
		"1.2.3.4 1.2.3.5":              "? separate several addresses by commas",
		"1.2.3.4:443":                  "? has a port; write ip:1.2.3.4",
		"[2001:db8::1]:443":            "? has a port; write ip:2001:db8::1",
		"[2001:db8::1]":                "? has brackets; write ip:2001:db8::1",
		"ru":                           "? write country:RU",
		"AS0":                          "? has no number of an autonomous system",
		"fd00:db8::zz":                 "? looks like an IPv6 address and is none",
		"fd00::/129":                   "? ip:fd00:: for the one address, or a network such as ip:fd00::/64",
		"fd12:3456:789a::1/129":        "? such as ip:fd12:3456:789a::/64",
		"fe80::1%eth0":                 "? write ip:fe80::1",
		"ip:fe80::1%eth0":              "? write ip:fe80::1",
		"ab:cd:ef:01:02:03":            "? hardware address (MAC)",
		"ab-cd-ef-01-02-03":            "? hardware address (MAC)",
		"abcd.ef01.0203":               "? hardware address (MAC)",
		"fe80:1:2:3":                   "? write ip:fe80:1:2:3::/64",
		"2001:db8:*":                   "? probably mean ip:2001:db8::/32",
		"sshd: 192.0.2.55":             `? has an address behind "sshd:"; write ip:192.0.2.55`,
		"IP:192.0.2.55":                "? write ip:192.0.2.55",
		"example.org:443":              "? is a host with a port",
		"https://malware.example/path": "? is a URL",
		"https://192.0.2.55/path":      "? write ip:192.0.2.55",
		"evil.example":                 "? is the name of a host",
		"user43":                       "? has no kind",
		"fd12:7":                       `? has the kind "fd12", which neither`,
		"other:*":                      `? has the kind "other", which neither`,
		"":                             "? is empty",
		"a\x00b":                       "? control character",
	} {
		all, err := known.Patterns(text)
		if problem, refused := strings.CutPrefix(want, "? "); refused {
			if err == nil || !strings.Contains(err.Error(), problem) {
				t.Errorf("Patterns(%q) = %q, %v; want a refusal with %q", text, keys.Join(all, 0), err, problem)
			}
		} else if err != nil || keys.Join(all, 0) != want {
			t.Errorf("Patterns(%q) = %q, %v; want %q", text, keys.Join(all, 0), err, want)
		}
	}
}

// known knows the kinds shop and fee, and the key user42.
var known = keys.Reading{IsKnown: func(p keys.Pattern) bool {
	kind, _, _ := strings.Cut(p.Literal(), ":")
	return kind == "shop" || kind == "fee" || p.Literal() == "user42"
}}

func TestLiteralReadingTakesTextAsWritten(t *testing.T) {
	literal := known
	literal.Literal = true
	for text, want := range map[string]string{
		"300.1.1.1": "300.1.1.1", "RU": "RU", "AS64500": "AS64500", "evil.example": "evil.example", "sshd: 192.0.2.55": "sshd: 192.0.2.55",
		"fd12:7": "fd12:7", "1.2.3.4, 1.2.3.5": "1.2.3.4, 1.2.3.5", "other:*": "other:*",
		"1.2.3.4": "ip:1.2.3.4", "2001:db8::/48": "ip:2001:db8::/48", "country:nl": "country:NL", // no key is spelled so
	} {
		if p, err := literal.Pattern(text); err != nil || p.String() != want {
			t.Errorf("%q is read as %q, %v; want %q", text, p, err, want)
		}
	}
	for _, text := range []string{"example.org:443", "Token:a", "ip:300.1.1.1", "token:a*b"} {
		if p, err := literal.Pattern(text); err == nil || strings.Contains(err.Error(), "--literal") {
			t.Errorf("%q is read as %q, %v; no key can be spelled so", text, p, err)
		}
		if _, err := known.Pattern(text); err == nil || strings.Contains(err.Error(), "--literal") {
			t.Errorf("%q: %v offers to take it literally, which is refused", text, err)
		}
	}
}

func TestReadingOfOnePatternNamesTheSeveral(t *testing.T) {
	if _, err := known.Pattern("10.0.0.1-10.0.0.3"); err == nil || !strings.HasSuffix(err.Error(), "write one of ip:10.0.0.1, ip:10.0.0.2/31") {
		t.Error(err)
	}
}

func TestAnyKindReadsKindsThatAreNotKnown(t *testing.T) {
	any := keys.Reading{AnyKind: true}
	for _, text := range []string{"other:*", "user43", "fd12:7"} {
		if p, err := any.Pattern(text); err != nil || p.String() != text {
			t.Errorf("%q is read as %q, %v", text, p, err)
		}
	}
	if _, err := any.Pattern("300.1.1.1"); err == nil {
		t.Error("a mistyped address is read as a key")
	}
}

func TestReadingOfAKeyNeedsNoKindForAnAddress(t *testing.T) {
	for text, want := range map[string]string{"1.2.3.4": "ip:1.2.3.4", " 2001:db8::1": "ip:2001:db8::/64", "user42": "user42", "ip:1.2.3.4": "ip:1.2.3.4"} {
		if k, err := known.Key(text); err != nil || k.String() != want {
			t.Errorf("%q is read as %q, %v; want %q", text, k, err, want)
		}
	}
}

// TestReadingOfWhatIsCanonicalIsTheSame holds for every pattern of addresses: links of pages and
// files of exports are read again.
func TestReadingOfWhatIsCanonicalIsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.IntRange(0, 32).Draw(t, "bits")
		bytes := [4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "address"))
		p := keys.NetworkPattern(netip.PrefixFrom(netip.AddrFrom4(bytes), bits))
		for _, text := range []string{p.String(), strings.TrimPrefix(p.String(), "ip:")} {
			if again, err := (keys.Reading{}).Pattern(text); err != nil || again != p {
				t.Fatalf("%s is read as %s, %v", text, again, err)
			}
		}
	})
}

// TestARangeIsReadAsTheNetworksThatCoverIt compares each address around the ends.
func TestARangeIsReadAsTheNetworksThatCoverIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := func(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}) }
		first := rapid.IntRange(1, 1000).Draw(t, "first")
		last := rapid.IntRange(first, 1500).Draw(t, "last")
		all, err := (keys.Reading{}).Patterns(at(first).String() + " - " + at(last).String())
		if err != nil {
			t.Fatal(err)
		}
		for n := range 1600 {
			covering := 0
			for _, p := range all {
				if network, _ := p.Network(); network.Contains(at(n)) {
					covering++
				}
			}
			if is := n >= first && n <= last; is != (covering == 1) || covering > 1 {
				t.Fatalf("%s to %s: %s is in %d networks of %s", at(first), at(last), at(n), covering, keys.Join(all, 0))
			}
		}
	})
}
