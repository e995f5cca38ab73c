package api

import (
	"net"
	"net/netip"
	"testing"

	"github.com/valyala/fasthttp"
)

func TestTrustedProxiesAreReadAndEverybodyIsRefused(t *testing.T) {
	got, err := ParseTrustedProxies(" 10.0.0.0/8, 192.0.2.10 ,::ffff:198.51.100.0/120, 2001:db8::/32,")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"10.0.0.0/8", "192.0.2.10/32", "198.51.100.0/24", "2001:db8::/32"}
	for i, text := range want {
		if i >= len(got) || got[i].String() != text {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
	for _, bad := range []string{"0.0.0.0/0", "::/0", "::ffff:0.0.0.0/96", "::ffff:0:0/90", "1.2.3.4/0", "0.0.0.0/1", "128.0.0.0/1", "2000::/3", "localhost", "10.0.0.0/33", "*"} {
		if got, err := ParseTrustedProxies(bad); err == nil {
			t.Errorf("%s was read as %v", bad, got)
		}
	}
	if got, err := ParseTrustedProxies(""); err != nil || len(got) != 0 {
		t.Errorf("nothing was read as %v, %v", got, err)
	}
}

func TestForwardedHeadersCountOnlyFromTrustedProxiesAndFromTheRight(t *testing.T) {
	proxies, err := ParseTrustedProxies("10.0.0.0/8,2001:db8:ffff::/48")
	if err != nil {
		t.Fatal(err)
	}
	type headers map[string][]string
	for name, test := range map[string]struct {
		peer    string
		headers headers
		want    string
	}{
		"no header":                         {"10.0.0.1", nil, "10.0.0.1"},
		"an untrusted peer":                 {"203.0.113.9", headers{"X-Forwarded-For": {"198.51.100.1"}}, "203.0.113.9"},
		"one hop":                           {"10.0.0.1", headers{"X-Forwarded-For": {"198.51.100.1"}}, "198.51.100.1"},
		"a forged first hop":                {"10.0.0.1", headers{"X-Forwarded-For": {"127.0.0.1, 198.51.100.1"}}, "198.51.100.1"},
		"two proxies":                       {"10.0.0.1", headers{"X-Forwarded-For": {"1.1.1.1, 198.51.100.1, 10.0.0.2"}}, "198.51.100.1"},
		"a header in two lines":             {"10.0.0.1", headers{"X-Forwarded-For": {"1.1.1.1", "198.51.100.1, 10.0.0.2"}}, "198.51.100.1"},
		"only proxies":                      {"10.0.0.1", headers{"X-Forwarded-For": {"10.0.0.3, 10.0.0.2"}}, "10.0.0.3"},
		"nonsense":                          {"10.0.0.1", headers{"X-Forwarded-For": {"1.1.1.1, <script>"}}, "10.0.0.1"},
		"nonsense behind a proxy":           {"10.0.0.1", headers{"X-Forwarded-For": {"1.1.1.1, unknown, 10.0.0.2"}}, "10.0.0.2"},
		"a port":                            {"10.0.0.1", headers{"X-Forwarded-For": {"198.51.100.1:4711"}}, "198.51.100.1"},
		"a mapped address":                  {"10.0.0.1", headers{"X-Forwarded-For": {"::ffff:198.51.100.1"}}, "198.51.100.1"},
		"IPv6":                              {"2001:db8:ffff::1", headers{"X-Forwarded-For": {"2001:db8::7"}}, "2001:db8::7"},
		"Forwarded":                         {"10.0.0.1", headers{"Forwarded": {`for=1.1.1.1, for="[2001:db8::7]:80";proto=https;by=10.0.0.1`}}, "2001:db8::7"},
		"Forwarded before X-Forwarded-For":  {"10.0.0.1", headers{"Forwarded": {"for=198.51.100.1"}, "X-Forwarded-For": {"1.1.1.1"}}, "198.51.100.1"},
		"an obfuscated Forwarded":           {"10.0.0.1", headers{"Forwarded": {"for=_hidden"}}, "10.0.0.1"},
		"Forwarded without for":             {"10.0.0.1", headers{"Forwarded": {"proto=https"}}, "10.0.0.1"},
		"a mapped peer":                     {"::ffff:10.0.0.1", headers{"X-Forwarded-For": {"198.51.100.1"}}, "198.51.100.1"},
		"another header that clients forge": {"10.0.0.1", headers{"X-Real-IP": {"1.1.1.1"}}, "10.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			var rc fasthttp.RequestCtx
			rc.Init(&fasthttp.Request{}, &net.TCPAddr{IP: net.ParseIP(test.peer), Port: 1}, nil)
			for header, lines := range test.headers {
				for _, line := range lines {
					rc.Request.Header.Add(header, line)
				}
			}
			if got := proxies.clientAddress(&rc); got != netip.MustParseAddr(test.want) {
				t.Fatalf("got %s, want %s", got, test.want)
			}
		})
	}
}
