package redislog_test

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/servers"
)

// tlsEndpoint is what listens for TLS of a server, with a certificate that nobody has signed.
type tlsEndpoint struct {
	address   string
	cert, key string // files
	admin     redis.UniversalClient
}

// overTLS starts a server with an endpoint for TLS.
func overTLS(t *testing.T, args ...string) tlsEndpoint {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	e := tlsEndpoint{address: l.Addr().String()}
	l.Close()
	_, port, err := net.SplitHostPort(e.address)
	must(t, err)
	e.cert, e.key = servers.Certificate(t, t.TempDir())
	args = append([]string{"--tls-port", port, "--tls-cert-file", e.cert, "--tls-key-file", e.key, "--tls-ca-cert-file", e.cert}, args...)
	e.admin = connect(t, servers.DedicatedRedis(t, args...))
	return e
}

// clusterOverTLS starts a Cluster of one server with an endpoint for TLS.
func clusterOverTLS(t *testing.T, args ...string) tlsEndpoint {
	t.Helper()
	e := overTLS(t, append(args, "--cluster-enabled", "yes", "--tls-cluster", "yes")...)
	must(t, e.admin.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	servers.Await(t, "the Cluster has all slots", func() bool {
		return strings.Contains(e.admin.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	})
	return e
}

func TestConnectUsesTLSAndVerifiesTheCertificate(t *testing.T) {
	tls := overTLS(t, "--tls-auth-clients", "no").address
	p := policy(t, 1, "2/1h")
	trusting := openURL(t, "rediss://"+tls+"/0?dial_timeout=20s&skip_verify=true")
	if r := ask(t.Context(), trusting, p, address, 1); r.Err != nil || !r.Allowed {
		t.Errorf("over TLS: %+v", r)
	}
	strict := openURL(t, "rediss://"+tls+"/0?dial_timeout=20s")
	r := ask(t.Context(), strict, p, address, 1)
	wantOutage(t, r.Err)
	if !strings.Contains(r.Err.Error(), "certificate") {
		t.Errorf("a certificate that nobody vouches for: %v", r.Err)
	}
}

// withFiles returns a URL with options that name files.
func withFiles(rawURL, root, cert, key string) string {
	options := url.Values{}
	for name, file := range map[string]string{"sslrootcert": root, "sslcert": cert, "sslkey": key} {
		if file != "" {
			options.Set(name, file)
		}
	}
	return rawURL + "?" + options.Encode()
}

func TestURLNamesTheAuthorityAndACertificateOfItsOwn(t *testing.T) {
	ownCert, ownKey := servers.Certificate(t, t.TempDir())
	otherCert, otherKey := servers.Certificate(t, t.TempDir())
	server := overTLS(t, "--tls-ca-cert-file", ownCert)
	_, err := check(t, withFiles("rediss://"+server.address+"/0", server.cert, ownCert, ownKey), redislog.CheckOptions{})
	must(t, err)
	for name, test := range map[string]struct{ url, want string }{
		"no authority":               {withFiles("rediss://"+server.address, "", ownCert, ownKey), "?sslrootcert=FILE"},
		"another authority":          {withFiles("rediss://"+server.address, otherCert, ownCert, ownKey), "certificate cannot be verified"},
		"no certificate":             {withFiles("rediss://"+server.address, server.cert, "", ""), "?sslcert=FILE&sslkey=FILE"},
		"a certificate it knows not": {withFiles("rediss://"+server.address, server.cert, otherCert, otherKey), "tls-ca-cert-file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := check(t, test.url, redislog.CheckOptions{})
			wantConfigError(t, err, test.want)
		})
	}
	t.Run("in a Cluster", func(t *testing.T) {
		server := clusterOverTLS(t, "--tls-ca-cert-file", ownCert)
		_, err := check(t, withFiles("rediss+cluster://"+server.address, server.cert, ownCert, ownKey), redislog.CheckOptions{})
		must(t, err)
	})
}

// Each server of a Cluster may have a certificate for its own name only.
func TestCertificateMayBeForTheServersOwnNameOrForThatOfTheURL(t *testing.T) {
	cert, key := servers.Certificate(t, t.TempDir(), "localhost")
	server := clusterOverTLS(t, "--tls-auth-clients", "no", "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert,
		"--cluster-announce-hostname", "localhost", "--cluster-preferred-endpoint-type", "hostname")
	_, port, err := net.SplitHostPort(server.address)
	must(t, err)
	for _, url := range []string{ // nothing listens on port 1
		"rediss+cluster://127.0.0.1:1?addr=localhost:" + port,
		"rediss+cluster://localhost:1?addr=" + server.address,
	} {
		_, err := check(t, url+"&sslrootcert="+cert, redislog.CheckOptions{})
		must(t, err)
	}
	_, err = check(t, "rediss+cluster://"+server.address+"?sslrootcert="+cert, redislog.CheckOptions{})
	wantConfigError(t, err, "certificate cannot be verified")
}

func TestNewConnectionsUseNewFiles(t *testing.T) {
	own, root := t.TempDir(), filepath.Join(t.TempDir(), "root.pem")
	ownCert, ownKey := servers.Certificate(t, own)
	server := overTLS(t, "--tls-ca-cert-file", ownCert)
	replace := func(from, to string) {
		text, err := os.ReadFile(from)
		must(t, err)
		must(t, os.WriteFile(to, text, 0o600))
	}
	replace(server.cert, root)
	log := openURL(t, withFiles("rediss://"+server.address+"/0", root, ownCert, ownKey)+"&dial_timeout=20s")
	p := policy(t, 1, "100/1h")
	must(t, ask(t.Context(), log, p, address, 1).Err)

	newCert, newKey := servers.Certificate(t, t.TempDir())
	servers.Certificate(t, own)
	replace(newCert, root)
	must(t, server.admin.Do(t.Context(), "config", "set",
		"tls-cert-file", newCert, "tls-key-file", newKey, "tls-ca-cert-file", ownCert).Err())
	must(t, server.admin.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err())
	servers.Await(t, "Redis decides over a new connection", func() bool {
		return ask(t.Context(), log, p, address, 1).Err == nil
	})
}

func TestURLWithUnfitFilesIsRejected(t *testing.T) {
	cert, key := servers.Certificate(t, t.TempDir())
	_, otherKey := servers.Certificate(t, t.TempDir())
	missing := filepath.Join(t.TempDir(), "missing.pem")
	for name, test := range map[string]struct{ url, want string }{
		"without TLS":          {withFiles("redis://:secret@example.com", cert, "", ""), "write rediss://"},
		"on a Unix socket":     {withFiles("unix://:secret@/run/redis.sock", cert, "", ""), "write rediss://"},
		"no key":               {withFiles("rediss://:secret@example.com", "", cert, ""), "both sslcert and sslkey"},
		"no certificate":       {withFiles("rediss+cluster://:secret@example.com", cert, "", key), "both sslcert and sslkey"},
		"an empty name":        {"rediss://:secret@example.com?sslrootcert=", "without the name of a file"},
		"two":                  {"rediss://:secret@example.com?sslrootcert=" + cert + "&sslrootcert=" + cert, "twice"},
		"no such file":         {withFiles("rediss://:secret@example.com", missing, "", ""), "the sslrootcert of the Redis URL: open " + missing},
		"a folder":             {withFiles("rediss://:secret@example.com", "", t.TempDir(), key), "is not a regular file"},
		"no PEM":               {withFiles("rediss://:secret@example.com", key, "", ""), "contains no certificate"},
		"another one's key":    {withFiles("rediss+sentinel://:secret@example.com", "", cert, otherKey), "sslcert and sslkey of the Redis URL: "},
		"an option that is no": {withFiles("rediss://:secret@example.com", cert, "", "") + "&sslmode=secret", "option that does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := redislog.Connect(test.url)
			if err == nil {
				client.Close()
				t.Fatal("the URL was accepted")
			}
			if text := err.Error(); !strings.Contains(text, test.want) || strings.Contains(text, "secret") || strings.Contains(text, "\n") {
				t.Errorf("got %q, want one line with %q", text, test.want)
			}
		})
	}
	client, err := redislog.Connect(withFiles("rediss+sentinel://example.com", cert, cert, key) + "&master_name=m")
	must(t, err)
	client.Close()
}
