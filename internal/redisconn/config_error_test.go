package redisconn_test

import (
	"net"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/redisconn"
	"github.com/stint-dev/stint/test/servers"
)

// ping returns the error of a PING to the Redis of a URL.
func ping(t *testing.T, url string) error {
	t.Helper()
	return connect(t, url).Ping(t.Context()).Err()
}

// wantExplained checks that the error of a PING is explained by part of a text, without a secret.
func wantExplained(t *testing.T, url, part string) {
	t.Helper()
	err := ping(t, url)
	if err == nil {
		t.Fatalf("%s was answered", url)
	}
	wrong := redisconn.TargetOf(url).Explain(t.Context(), err)
	if wrong == nil {
		t.Fatalf("%v is not explained, want %q", err, part)
	}
	if text := wrong.Error(); !strings.Contains(text, part) || strings.Contains(text, "secret") || strings.Contains(text, "\n") {
		t.Errorf("got %q, want one line with %q and without the password", text, part)
	}
}

func TestExplainNamesMistakesInTheURLAndTheServer(t *testing.T) {
	server, locked, member := servers.DedicatedRedis(t), servers.DedicatedRedis(t), servers.ClusterOfOne(t)
	must(t, connect(t, locked.URL).ConfigSet(t.Context(), "requirepass", "x").Err())
	watching := servers.Sentinels(t, "m", server)[0]
	withTLS, wantsCertificate := redisOverTLS(t, "--tls-auth-clients", "no").address, redisOverTLS(t).address
	for name, test := range map[string]struct{ url, want string }{
		"no password":                       {"redis://" + locked.Addr, "requires a password"},
		"a wrong password":                  {"redis://:secret@" + locked.Addr, "user or the password"},
		"a user that does not exist":        {"redis://nobody:secret@" + server.Addr, "user or the password"},
		"no password, in a cluster":         {"redis+cluster://" + locked.Addr, "requires a password"},
		"a wrong password, in a cluster":    {"redis+cluster://:secret@" + locked.Addr, "user or the password"},
		"a wrong password for the sentinel": {"redis+sentinel://u:secret@" + watching + "?master_name=m", "Sentinels'"},
		"a database that does not exist":    {"redis://" + server.Addr + "/99", "no database"},
		"the same behind a sentinel":        {"redis+sentinel://" + watching + "/99?master_name=m", "no database"},
		"a database of a cluster":           {"redis://" + member.Addr + "/3", "redis+cluster://"},
		"no cluster":                        {"redis+cluster://" + server.Addr, "does not belong to a Cluster"},
		"no sentinel":                       {"redis+sentinel://" + server.Addr + "?master_name=m", "is not a Sentinel"},
		"another primary's name":            {"redis+sentinel://" + watching + "?master_name=other", "master_name"},
		"tls where there is none":           {"rediss://" + server.Addr + "?dial_timeout=2s", "speaks no TLS; write redis://"},
		"tls where the cluster has none":    {"rediss+cluster://" + member.Addr + "?dial_timeout=2s", "speaks no TLS; write redis+cluster://"},
		"tls where the sentinel has none":   {"rediss+sentinel://" + watching + "?master_name=m&dial_timeout=2s", "speaks no TLS; write redis+sentinel://"},
		"no tls where it is needed":         {"redis://" + withTLS, "speaks TLS; write rediss://"},
		"the same, wanting a certificate":   {"redis://" + wantsCertificate, "speaks TLS; write rediss://"},
		"a certificate nobody vouches for":  {"rediss://" + withTLS, "certificate cannot be verified"},
		"no certificate of the client's":    {"rediss://" + wantsCertificate + "?skip_verify=true", "certificate required"},
		"something that is no redis":        {"redis://" + webServer(t), "is not Redis"},
	} {
		t.Run(name, func(t *testing.T) {
			wantExplained(t, test.url, test.want)
		})
	}
}

// The alert arrives after the handshake, and often after the connection was reset.
func TestExplainReportsAMissingClientCertificateEachTime(t *testing.T) {
	url := "rediss://" + redisOverTLS(t).address + "?skip_verify=true"
	for range 20 {
		wantExplained(t, url, "set tls-auth-clients to no")
	}
}

// webServer answers like an HTTP server that receives invalid requests.
func webServer(t *testing.T) string {
	t.Helper()
	return servers.Listen(t, func(conn net.Conn) {
		defer conn.Close()
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		}
	})
}

func TestExplainNamesNoMistakeIfTheServerMayOnlyBeUnreachable(t *testing.T) {
	address := servers.FreeAddress(t)
	for _, url := range []string{
		"redis://" + address, "redis+cluster://" + address, "redis+sentinel://" + address + "?master_name=m", "rediss://" + address,
	} {
		err := ping(t, url)
		if wrong := redisconn.TargetOf(url).Explain(t.Context(), err); err == nil || wrong != nil {
			t.Errorf("%s: %v is explained as %v", url, err, wrong)
		}
	}
}

func TestCheckModeComparesTheServerWithTheURL(t *testing.T) {
	for _, test := range []struct{ url, mode, want string }{
		{"redis://example.com", "standalone", ""},
		{"redis://example.com", "", ""},
		{"redis://example.com", "cluster", "write redis+cluster://"},
		{"rediss://example.com", "cluster", "write rediss+cluster://"},
		{"redis+cluster://example.com", "cluster", ""},
		{"redis+cluster://example.com", "sentinel", "write redis+sentinel://"},
	} {
		wrong := redisconn.TargetOf(test.url).CheckMode("192.0.2.1:6379", test.mode)
		switch {
		case test.want == "" && wrong != nil:
			t.Errorf("%s, mode %q: got %v, want nothing", test.url, test.mode, wrong)
		case test.want != "" && (wrong == nil || !strings.Contains(wrong.Problem, test.want) || !strings.Contains(wrong.Problem, "192.0.2.1:6379")):
			t.Errorf("%s, mode %q: got %v, want %q", test.url, test.mode, wrong, test.want)
		}
	}
	if wrong := (redisconn.Target{}).CheckMode("192.0.2.1:6379", "cluster"); wrong != nil {
		t.Errorf("an unknown target: got %v, want nothing", wrong)
	}
}
