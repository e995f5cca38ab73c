package redisconn_test

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/redisconn"
	"github.com/stint-dev/stint/test/servers"
)

// tlsServer is a server with an endpoint for TLS, with a certificate that nobody has signed.
type tlsServer struct {
	*servers.RedisServer
	address   string // the endpoint for TLS
	cert, key string // files
}

// overTLS starts a server with an endpoint for TLS, as start does without one.
func overTLS(t *testing.T, start func(testing.TB, ...string) *servers.RedisServer, args ...string) tlsServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := tlsServer{address: l.Addr().String()}
	l.Close()
	_, port, err := net.SplitHostPort(s.address)
	must(t, err)
	s.cert, s.key = servers.Certificate(t, t.TempDir())
	s.RedisServer = start(t, append([]string{"--tls-port", port, "--tls-cert-file", s.cert, "--tls-key-file", s.key, "--tls-ca-cert-file", s.cert}, args...)...)
	return s
}

// redisOverTLS starts a server of its own with an endpoint for TLS.
func redisOverTLS(t *testing.T, args ...string) tlsServer {
	t.Helper()
	return overTLS(t, servers.DedicatedRedis, args...)
}

// clusterOverTLS starts a Cluster of one server with an endpoint for TLS.
func clusterOverTLS(t *testing.T, args ...string) tlsServer {
	t.Helper()
	return overTLS(t, servers.ClusterOfOne, append(args, "--tls-cluster", "yes")...)
}

func TestConnectUsesTLSAndVerifiesTheCertificate(t *testing.T) {
	server := redisOverTLS(t, "--tls-auth-clients", "no")
	must(t, ping(t, "rediss://"+server.address+"/0?dial_timeout=20s&skip_verify=true"))
	err := ping(t, "rediss://"+server.address+"/0?dial_timeout=20s")
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a certificate that nobody vouches for: %v", err)
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
	server := redisOverTLS(t, "--tls-ca-cert-file", ownCert)
	must(t, ping(t, withFiles("rediss://"+server.address+"/0", server.cert, ownCert, ownKey)))
	for name, test := range map[string]struct{ url, want string }{
		"no authority":               {withFiles("rediss://"+server.address, "", ownCert, ownKey), "?sslrootcert=FILE"},
		"another authority":          {withFiles("rediss://"+server.address, otherCert, ownCert, ownKey), "certificate cannot be verified"},
		"no certificate":             {withFiles("rediss://"+server.address, server.cert, "", ""), "?sslcert=FILE&sslkey=FILE"},
		"a certificate it knows not": {withFiles("rediss://"+server.address, server.cert, otherCert, otherKey), "tls-ca-cert-file"},
	} {
		t.Run(name, func(t *testing.T) {
			wantExplained(t, test.url, test.want)
		})
	}
	t.Run("in a Cluster", func(t *testing.T) {
		server := clusterOverTLS(t, "--tls-ca-cert-file", ownCert)
		must(t, ping(t, withFiles("rediss+cluster://"+server.address, server.cert, ownCert, ownKey)))
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
		must(t, ping(t, url+"&sslrootcert="+cert))
	}
	wantExplained(t, "rediss+cluster://"+server.address+"?sslrootcert="+cert, "certificate cannot be verified")
}

func TestNewConnectionsUseNewFiles(t *testing.T) {
	own, root := t.TempDir(), filepath.Join(t.TempDir(), "root.pem")
	ownCert, ownKey := servers.Certificate(t, own)
	server := redisOverTLS(t, "--tls-ca-cert-file", ownCert)
	replace := func(from, to string) {
		text, err := os.ReadFile(from)
		must(t, err)
		must(t, os.WriteFile(to, text, 0o600))
	}
	replace(server.cert, root)
	client := connect(t, withFiles("rediss://"+server.address+"/0", root, ownCert, ownKey)+"&dial_timeout=20s")
	must(t, client.Ping(t.Context()).Err())

	newCert, newKey := servers.Certificate(t, t.TempDir())
	servers.Certificate(t, own)
	replace(newCert, root)
	admin := connect(t, server.URL)
	must(t, admin.Do(t.Context(), "config", "set",
		"tls-cert-file", newCert, "tls-key-file", newKey, "tls-ca-cert-file", ownCert).Err())
	must(t, admin.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err())
	servers.Await(t, "Redis answers over a new connection", func() bool {
		return client.Ping(t.Context()).Err() == nil
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
			client, err := redisconn.Connect(test.url)
			if err == nil {
				client.Close()
				t.Fatal("the URL was accepted")
			}
			if text := err.Error(); !strings.Contains(text, test.want) || strings.Contains(text, "secret") || strings.Contains(text, "\n") {
				t.Errorf("got %q, want one line with %q", text, test.want)
			}
		})
	}
	connect(t, withFiles("rediss+sentinel://example.com", cert, cert, key)+"&master_name=m")
}
