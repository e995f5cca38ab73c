package e2e_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stint-dev/stint/test/servers"
)

// certificate makes a certificate for 127.0.0.1 and returns its files and a pool that trusts it.
func certificate(t *testing.T) (cert, key string, trust *x509.CertPool) {
	t.Helper()
	cert, key = servers.Certificate(t, t.TempDir())
	text, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	trust = x509.NewCertPool()
	trust.AppendCertsFromPEM(text)
	return cert, key, trust
}

func TestEachListenerHasItsOwnTLSSettings(t *testing.T) {
	cert, key, trust := certificate(t)
	secure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trust}}}
	for name, test := range map[string]struct {
		args           []string
		checkTLS, both bool
	}{
		"checks alone": {args: []string{"--tls-cert", cert, "--tls-key", key}, checkTLS: true},
		"admin alone":  {args: []string{"--admin-tls-cert", cert, "--admin-tls-key", key}},
	} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, test.args...)
			for url, encrypted := range map[string]bool{n.check: test.checkTLS, n.admin: !test.checkTLS} {
				if encrypted != strings.HasPrefix(url, "https://") {
					t.Errorf("the node prints the address %s", url)
				}
				response, err := secure.Get(url + "/livez")
				if err != nil {
					t.Fatal(err)
				}
				response.Body.Close()
				if response.StatusCode != http.StatusOK || (response.TLS != nil) != encrypted {
					t.Errorf("%s/livez: got %d, TLS %v", url, response.StatusCode, response.TLS != nil)
				}
			}
		})
	}
}
