package httpserver

import (
	"net"
	"net/netip"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/stint-dev/stint/internal/proxies"
)

func TestClientAddressesReadOneHeaderOfTrustedProxies(t *testing.T) {
	trusted, err := proxies.Parse("127.0.0.0/8,10.0.0.0/8,2001:db8:ffff::/48")
	if err != nil {
		t.Fatal(err)
	}
	type headers map[string][]string
	for name, test := range map[string]struct {
		header  AddressHeader
		peer    string
		headers headers
		want    string
	}{
		"no header":                         {"", "10.0.0.1", nil, "10.0.0.1"},
		"an untrusted peer":                 {"", "203.0.113.9", headers{"X-Forwarded-For": {"198.51.100.1"}}, "203.0.113.9"},
		"one hop":                           {"", "10.0.0.1", headers{"X-Forwarded-For": {"198.51.100.1"}}, "198.51.100.1"},
		"a forged first hop":                {"", "10.0.0.1", headers{"X-Forwarded-For": {"127.0.0.1, 198.51.100.1"}}, "198.51.100.1"},
		"two proxies":                       {"", "10.0.0.1", headers{"X-Forwarded-For": {"1.1.1.1, 198.51.100.1, 10.0.0.2"}}, "198.51.100.1"},
		"a header in two lines":             {"", "10.0.0.1", headers{"X-Forwarded-For": {"1.1.1.1", "198.51.100.1, 10.0.0.2"}}, "198.51.100.1"},
		"a name in lower case":              {"", "10.0.0.1", headers{"x-forwarded-for": {"198.51.100.1"}}, "198.51.100.1"},
		"only proxies":                      {"", "10.0.0.1", headers{"X-Forwarded-For": {"10.0.0.3, 10.0.0.2"}}, "10.0.0.3"},
		"an invalid address":                {"", "10.0.0.1", headers{"X-Forwarded-For": {"1.1.1.1, <script>"}}, "10.0.0.1"},
		"an invalid address before a proxy": {"", "10.0.0.1", headers{"X-Forwarded-For": {"1.1.1.1, unknown, 10.0.0.2"}}, "10.0.0.2"},
		"a port":                            {"", "10.0.0.1", headers{"X-Forwarded-For": {"198.51.100.1:4711"}}, "198.51.100.1"},
		"a mapped address":                  {"", "10.0.0.1", headers{"X-Forwarded-For": {"::ffff:198.51.100.1"}}, "198.51.100.1"},
		"IPv6":                              {"", "2001:db8:ffff::1", headers{"X-Forwarded-For": {"2001:db8::7"}}, "2001:db8::7"},
		"a mapped peer":                     {"", "::ffff:10.0.0.1", headers{"X-Forwarded-For": {"198.51.100.1"}}, "198.51.100.1"},
		"a Forwarded of the client":         {"", "10.0.0.1", headers{"Forwarded": {"for=192.0.2.66"}, "X-Forwarded-For": {"198.51.100.1"}}, "198.51.100.1"},
		"a Forwarded alone":                 {"", "10.0.0.1", headers{"Forwarded": {"for=192.0.2.66"}}, "10.0.0.1"},
		"another header":                    {"", "10.0.0.1", headers{"X-Real-IP": {"1.1.1.1"}}, "10.0.0.1"},

		"Forwarded":                          {Forwarded, "10.0.0.1", headers{"Forwarded": {`for=1.1.1.1, for="[2001:db8::7]:80";proto=https;by=10.0.0.1`}}, "2001:db8::7"},
		"Forwarded alone reads":              {Forwarded, "10.0.0.1", headers{"Forwarded": {"for=198.51.100.1"}, "X-Forwarded-For": {"1.1.1.1"}}, "198.51.100.1"},
		"an X-Forwarded-For of the client's": {Forwarded, "10.0.0.1", headers{"X-Forwarded-For": {"1.1.1.1"}}, "10.0.0.1"},
		"an obfuscated Forwarded":            {Forwarded, "10.0.0.1", headers{"Forwarded": {"for=_hidden"}}, "10.0.0.1"},
		"Forwarded without for":              {Forwarded, "10.0.0.1", headers{"Forwarded": {"for=1.1.1.1, proto=https"}}, "10.0.0.1"},
		"Forwarded with two":                 {Forwarded, "10.0.0.1", headers{"Forwarded": {"for=1.1.1.1;for=198.51.100.1"}}, "10.0.0.1"},
		"a comma in quotes":                  {Forwarded, "10.0.0.1", headers{"Forwarded": {`for=198.51.100.1;host="a, for=1.1.1.1"`}}, "198.51.100.1"},
		"a quote that does not end":          {Forwarded, "10.0.0.1", headers{"Forwarded": {`for=1.1.1.1;host=", for=198.51.100.1`}}, "10.0.0.1"},
		"Forwarded in two lines":             {Forwarded, "10.0.0.1", headers{"Forwarded": {"for=1.1.1.1", "for=198.51.100.1"}}, "198.51.100.1"},
		"a single value":                     {"X-Real-IP", "10.0.0.1", headers{"X-Real-Ip": {"198.51.100.1"}, "X-Forwarded-For": {"1.1.1.1"}}, "198.51.100.1"},
		"a single value twice":               {"X-Real-IP", "10.0.0.1", headers{"X-Real-Ip": {"1.1.1.1", "198.51.100.1"}}, "10.0.0.1"},
		"a list with one value":              {"X-Real-IP", "10.0.0.1", headers{"X-Real-Ip": {"1.1.1.1, 198.51.100.1"}}, "10.0.0.1"},
		"a single value, untrusted peer":     {"X-Real-IP", "203.0.113.9", headers{"X-Real-Ip": {"1.1.1.1"}}, "203.0.113.9"},

		"loopback in the header":               {"", "10.0.0.1", headers{"X-Forwarded-For": {"127.0.0.1"}}, "10.0.0.1"},
		"loopback, mapped":                     {"", "10.0.0.1", headers{"X-Forwarded-For": {"::ffff:127.0.0.2"}}, "10.0.0.1"},
		"loopback behind a proxy":              {"", "10.0.0.1", headers{"X-Forwarded-For": {"::1, 10.0.0.2"}}, "10.0.0.2"},
		"the unspecified address":              {"", "10.0.0.1", headers{"X-Forwarded-For": {"0.0.0.0"}}, "10.0.0.1"},
		"a single loopback value":              {"X-Real-IP", "10.0.0.1", headers{"X-Real-Ip": {"127.0.0.1"}}, "10.0.0.1"},
		"a Forwarded loopback":                 {Forwarded, "10.0.0.1", headers{"Forwarded": {`for="[::1]"`}}, "10.0.0.1"},
		"a local proxy, a remote client":       {"", "127.0.0.1", headers{"X-Forwarded-For": {"127.0.0.1, 198.51.100.1"}}, "198.51.100.1"},
		"a local proxy that sends loopback":    {"", "127.0.0.1", headers{"X-Forwarded-For": {"127.0.0.1"}}, "::"},
		"a local proxy with a bad address":     {"", "127.0.0.1", headers{"X-Forwarded-For": {"unknown"}}, "::"},
		"a local proxy with an empty header":   {"", "127.0.0.1", headers{"X-Forwarded-For": {""}}, "::"},
		"a local proxy with two single values": {"X-Real-IP", "127.0.0.1", headers{"X-Real-Ip": {"198.51.100.1", "127.0.0.1"}}, "::"},
		"the local machine":                    {"", "127.0.0.1", nil, "127.0.0.1"},
		"the local machine, another header":    {"", "127.0.0.1", headers{"X-Real-Ip": {"198.51.100.1"}}, "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			var rc fasthttp.RequestCtx
			rc.Init(&fasthttp.Request{}, &net.TCPAddr{IP: net.ParseIP(test.peer), Port: 1}, nil)
			for header, lines := range test.headers {
				for _, line := range lines {
					rc.Request.Header.Add(header, line)
				}
			}
			if got := (ClientAddresses{trusted, test.header}).Of(&rc); got != netip.MustParseAddr(test.want) {
				t.Fatalf("got %s, want %s", got, test.want)
			}
		})
	}
	var rc fasthttp.RequestCtx
	rc.Init(&fasthttp.Request{}, &net.UnixAddr{Name: "@", Net: "unix"}, nil)
	rc.Request.Header.Add("X-Forwarded-For", "127.0.0.1")
	if got := (ClientAddresses{Proxies: trusted}).Of(&rc); got != netip.IPv6Unspecified() {
		t.Fatalf("Of a Unix socket: got %s, want ::", got)
	}
}

// A check's key gives no privileges, so it is what the header of a trusted proxy says, while a loopback address in
// it gives nothing to a login.
func TestCountedAddressIsWhatTheHeaderSays(t *testing.T) {
	trusted, err := proxies.Parse("127.0.0.0/8,10.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		peer, line, counted, privileged string
	}{
		"a visitor on this machine":            {"127.0.0.1", "127.0.0.1", "127.0.0.1", "::"},
		"a visitor on this machine over IPv6":  {"127.0.0.1", "::1", "::1", "::"},
		"mapped, with a port":                  {"127.0.0.1", "[::ffff:127.0.0.1]:4711", "127.0.0.1", "::"},
		"a visitor on the machine of a proxy":  {"10.0.0.1", "127.0.0.1", "127.0.0.1", "10.0.0.1"},
		"behind a local proxy":                 {"127.0.0.1", "198.51.100.1, 127.0.0.1", "198.51.100.1", "198.51.100.1"},
		"a claim of the client's":              {"127.0.0.1", "127.0.0.1, 198.51.100.1", "198.51.100.1", "198.51.100.1"},
		"a loopback that is no proxy's":        {"127.0.0.1", "198.51.100.1, ::1", "::1", "::"},
		"a local proxy that names no address":  {"127.0.0.1", "unknown", "::", "::"},
		"a peer that is not trusted":           {"203.0.113.9", "127.0.0.1", "203.0.113.9", "203.0.113.9"},
		"another proxy that names no address":  {"10.0.0.1", "unknown", "10.0.0.1", "10.0.0.1"},
		"a local proxy behind another, silent": {"127.0.0.1", "unknown, 10.0.0.1", "10.0.0.1", "10.0.0.1"},
	} {
		clients, peer, lines := ClientAddresses{Proxies: trusted}, netip.MustParseAddr(test.peer), [][]byte{[]byte(test.line)}
		if got := clients.Counted(peer, lines); got != netip.MustParseAddr(test.counted) {
			t.Errorf("%s: counted as %s, want %s", name, got, test.counted)
		}
		if got := clients.From(peer, lines); got != netip.MustParseAddr(test.privileged) {
			t.Errorf("%s: privileged as %s, want %s", name, got, test.privileged)
		}
	}
}

func TestParseAddressHeader(t *testing.T) {
	for text, want := range map[string]AddressHeader{
		"x-forwarded-for": XForwardedFor, "FORWARDED": Forwarded, "X-Real-IP": "X-Real-IP", "CF-Connecting-IP": "CF-Connecting-IP",
	} {
		if got, err := ParseAddressHeader(text); err != nil || got != want {
			t.Errorf("ParseAddressHeader(%s): got %q, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "X-Forwarded-For, Forwarded", "X Real IP", "host", "Content-Length", "X-Real-IP:", "\n"} {
		if got, err := ParseAddressHeader(bad); err == nil {
			t.Errorf("ParseAddressHeader(%q): got %q, want an error", bad, got)
		}
	}
}
