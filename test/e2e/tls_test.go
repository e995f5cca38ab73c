package e2e_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certificate makes a certificate for 127.0.0.1 and returns its files and a pool that trusts it.
func certificate(t *testing.T) (cert, key string, trust *x509.CertPool) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, secret.Public(), secret)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, bytes []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	trust = x509.NewCertPool()
	trust.AddCert(parsed)
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", private), trust
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
