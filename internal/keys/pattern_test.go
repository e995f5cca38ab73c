package keys_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/keys"
)

func TestPatternsHaveOneSpelling(t *testing.T) {
	for text, want := range map[string]string{
		"*":                         "*",
		"ip:*":                      "ip:*",
		"ip:203.0.113.7":            "ip:203.0.113.7",
		"ip:203.0.113.7/32":         "ip:203.0.113.7",
		"ip:::ffff:203.0.113.7":     "ip:203.0.113.7",
		"ip:::ffff:203.0.113.0/120": "ip:203.0.113.0/24",
		"ip:0.0.0.0/0":              "ip:0.0.0.0/0",
		"ip:::/0":                   "ip:::/0",
		"ip:2001:DB8::1":            "ip:2001:db8::/64",
		"ip:2001:DB8:0::1/128":      "ip:2001:db8::1/128",
		"ip:2001:DB8:0::/48":        "ip:2001:db8::/48",
		"token:*":                   "token:*",
		"token:test_*":              "token:test_*",
		`token:a\*`:                 `token:a\*`,
		`token:a\**`:                `token:a\**`,
		`token:a\\*`:                `token:a\\*`,
		"batch":                     "batch",
	} {
		p, err := keys.Parser{}.Pattern(text)
		if err != nil || p.String() != want {
			t.Errorf("Pattern(%q) = %q, %v; want %q", text, p, err, want)
		}
	}
}

func TestBareIPv6AddressIsWidenedWithANotice(t *testing.T) {
	for text, want := range map[string]bool{
		"ip:2001:db8::1": true, "ip:2001:db8::1/128": false, "ip:2001:db8::/64": false, "ip:203.0.113.7": false, "token:a*": false,
	} {
		if got := mustPattern(t, text).Widened(); got != want {
			t.Errorf("Widened of %s is %v, want %v", text, got, want)
		}
	}
	p, err := keys.Parser{IPv6Bits: 128}.Pattern("ip:2001:db8::1")
	if err != nil || p.Widened() || p.String() != "ip:2001:db8::1/128" {
		t.Errorf("counted by /128 it is %q, widened %v, %v", p, p.Widened(), err)
	}
}

func TestPatternRejectsLikelyMistakesWithASuggestion(t *testing.T) {
	for text, want := range map[string]string{
		"ip:10.1*":                          "probably mean ip:10.1.0.0/16",
		"ip:10.1.*":                         "probably mean ip:10.1.0.0/16",
		"ip:10.*":                           "probably mean ip:10.0.0.0/8",
		"ip:10.1.*.*":                       "probably mean ip:10.1.0.0/16",
		"ip:10.1.2.*":                       "probably mean ip:10.1.2.0/24",
		"ip:10.1.2.3*":                      "probably mean ip:10.1.2.3, or a CIDR around it such as ip:10.1.2.0/24",
		"ip:10.*.2.3":                       "write a CIDR",
		"ip:*.1":                            "write a CIDR",
		"ip:2001:db8:*":                     "probably mean ip:2001:db8::/32",
		"ip:2001:db8*":                      "probably mean ip:2001:db8::/32",
		"ip:2001:db8::*":                    "write a CIDR",
		"ip:10.0.0.1/24":                    "write ip:10.0.0.0/24 for the network or ip:10.0.0.1 for the one address",
		"ip:2001:db8::1/48":                 "write ip:2001:db8::/48",
		"ip:10.0.0.0/33":                    "bad network",
		"ip:10.0.0.0/255.0.0.0":             "bad network",
		"ip:10.1":                           "bad address",
		"10.0.0.0/8":                        "write ip:10.0.0.0/8",
		"10.0.0.1":                          "write ip:10.0.0.1",
		"2001:db8::/32":                     "write ip:2001:db8::/32",
		"token:a*b":                         `write "token:a*" for every key that begins so, or \* for a literal star`,
		"token:**":                          "star at byte 6",
		"*:x":                               "star in its kind",
		"tok*:x":                            "star in its kind",
		"**":                                "star at byte 0",
		"*x":                                "star at byte 0",
		"ip*":                               "write for example ip:*",
		"Bad kind*":                         "write for example token:*",
		"token:":                            "write token:*",
		`token:a\b`:                         "lone backslash at byte 7",
		`token:a\`:                          "lone backslash",
		"Token:a*":                          "lower case",
		"":                                  "is empty",
		"token:a\x00*":                      "control character",
		"token:" + strings.Repeat("x", 507): "a key has at most 512",
	} {
		p, err := keys.Parser{}.Pattern(text)
		var wrong *keys.Error
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) {
			t.Errorf("Pattern(%q) = %q, %v; want a *keys.Error with %q", text, p, err, want)
		}
	}
}

func TestPatternSelectsItsKeys(t *testing.T) {
	for pattern, c := range map[string]struct{ selects, others []string }{
		"*":                  {[]string{"batch", "token:a", "ip:10.0.0.1", "ip:2001:db8::/64"}, nil},
		"ip:*":               {[]string{"ip:10.0.0.1", "ip:2001:db8::1"}, []string{"token:ip:1", "ip"}},
		"ip:0.0.0.0/0":       {[]string{"ip:10.0.0.1", "ip:::ffff:10.0.0.1"}, []string{"ip:2001:db8::1"}},
		"ip:::/0":            {[]string{"ip:2001:db8::1", "ip:2001:db8::/64"}, []string{"ip:::ffff:10.0.0.1"}},
		"ip:10.0.0.0/9":      {[]string{"ip:10.0.0.1", "ip:10.127.255.255"}, []string{"ip:10.128.0.0"}},
		"ip:2001:db8::1/128": {[]string{"ip:2001:db8::1", "ip:2001:DB8::1%eth0"}, []string{"ip:2001:db8::2", "ip:2001:db8::/64"}},
		"ip:2001:db8::1":     {[]string{"ip:2001:db8::2", "ip:2001:db8::/64"}, []string{"ip:2001:db8:0:1::1"}},
		"token:a*":           {[]string{"token:a", "token:abc", "token:a*"}, []string{"token:b", "token:A", "user:a"}},
		`token:a\*`:          {[]string{"token:a*"}, []string{"token:a", "token:ab"}},
		`token:\**`:          {[]string{"token:*", "token:*x"}, []string{"token:x"}},
		"batch":              {[]string{"batch"}, []string{"batch:x", "batch2"}},
	} {
		p := mustPattern(t, pattern)
		for _, text := range c.selects {
			if !p.Matches(mustKey(t, text)) {
				t.Errorf("%s does not select %s", pattern, text)
			}
		}
		for _, text := range c.others {
			if p.Matches(mustKey(t, text)) {
				t.Errorf("%s selects %s", pattern, text)
			}
		}
	}
}

func TestZeroValuesSelectNothing(t *testing.T) {
	if (keys.Pattern{}).Matches(mustKey(t, "token:a")) || mustPattern(t, "*").Matches(keys.Key{}) {
		t.Error("a zero value matches")
	}
	if !keys.PatternOf(keys.Key{}).IsZero() || !keys.NetworkPattern(netip.Prefix{}).IsZero() {
		t.Error("the pattern of nothing is not the zero pattern")
	}
}

func TestNetworkGivesTheSamePatternAsItsText(t *testing.T) {
	for text, want := range map[string]string{
		"203.0.113.9/24": "ip:203.0.113.0/24", "::ffff:203.0.113.9/120": "ip:203.0.113.0/24", "2001:db8::1/128": "ip:2001:db8::1/128",
	} {
		if got := keys.NetworkPattern(netip.MustParsePrefix(text)); got != mustPattern(t, want) {
			t.Errorf("NetworkPattern(%s) = %v, want %s", text, got, want)
		}
	}
}

func TestPatternOfTheLongestKeyRoundTrips(t *testing.T) {
	k := mustKey(t, "token:"+strings.Repeat("*", keys.MaxLength-6))
	if p := mustPattern(t, keys.PatternOf(k).String()); !p.Matches(k) {
		t.Error("the pattern of the longest key does not match it")
	}
	if p := mustPattern(t, keys.PatternOf(k).String()+"*"); !p.Matches(k) || p.Kind() != keys.Prefix {
		t.Error("the pattern as a prefix does not match the key")
	}
}

func FuzzPattern(f *testing.F) {
	for _, seed := range []string{
		"*", "ip:*", "ip:10.1*", "ip:10.0.0.0/8", "ip:2001:db8::1", "ip:2001:db8::1/128", "ip:::ffff:10.0.0.0/104", "token:test_*", `token:a\**`,
		`token:\\`, "*:x", "batch", "10.0.0.0/8", "ip:10.0.0.1/24", "a:\x00",
	} {
		f.Add(seed, "ip:10.0.0.1")
		f.Add(seed, "token:test_1")
	}
	f.Fuzz(func(t *testing.T, text, keyText string) {
		var parser keys.Parser
		p, err := parser.Pattern(text)
		if err != nil {
			return
		}
		back, err := parser.Pattern(p.String())
		if err != nil || back.String() != p.String() || back.Kind() != p.Kind() || back.Literal() != p.Literal() {
			t.Fatalf("%q is %q, which reads back as %q, %v", text, p, back, err)
		}
		if !p.Covers(back) || !mustPattern(t, "*").Covers(p) {
			t.Fatalf("%q does not cover itself, or * does not cover it", p)
		}
		k, err := parser.Key(keyText)
		if err != nil {
			return
		}
		x := keys.NewIndex[string]()
		x.Set(p, text)
		found := false
		for range x.Matching(k) {
			found = true
		}
		if found != p.Matches(k) || back.Matches(k) != p.Matches(k) {
			t.Fatalf("%q, %q: the index finds %v, Matches returns %v and %v", p, k, found, p.Matches(k), back.Matches(k))
		}
	})
}

// TestNetworkOfAFurtherKeyHasOneSpelling: a block with another spelling would select nothing.
func TestNetworkOfAFurtherKeyHasOneSpelling(t *testing.T) {
	var p keys.Parser
	for text, want := range map[string]string{
		"net:203.0.113.0/24": "net:203.0.113.0/24", "net:2001:DB8::/48": "net:2001:db8::/48", "net:2001:db8:0::/48": "net:2001:db8::/48",
		"net:::ffff:203.0.113.0/120": "net:203.0.113.0/24", "net:office": "net:office",
	} {
		k, err := p.Key(text)
		if err != nil || k.String() != want {
			t.Errorf("the key %s: got %s, %v", text, k, err)
		}
		pattern, err := p.Pattern(text)
		if err != nil || pattern.String() != want || !pattern.Matches(k) {
			t.Errorf("the pattern %s: got %s, %v", text, pattern, err)
		}
	}
	_, ofKey := p.Key("net:203.0.113.5/24")
	_, ofPattern := p.Pattern("net:203.0.113.5/24")
	for _, err := range []error{ofKey, ofPattern} {
		if err == nil || !strings.Contains(err.Error(), "write net:203.0.113.0/24") {
			t.Errorf("host bits: got %v", err)
		}
	}
}
