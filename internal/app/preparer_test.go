package app

import (
	"crypto/tls"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/storetest"
)

// secureDatabase answers as a Postgres does up to the end of the handshake of TLS, "N" for one
// without TLS, and returns its address.
func secureDatabase(t *testing.T, config *tls.Config) string {
	t.Helper()
	return servers.Listen(t, func(c net.Conn) {
		defer c.Close()
		if _, err := io.ReadFull(c, make([]byte, 8)); err != nil {
			return
		}
		if config == nil {
			_, _ = io.WriteString(c, "N")
			return
		}
		_, _ = io.WriteString(c, "S")
		_ = tls.Server(c, config).HandshakeContext(t.Context())
	})
}

func TestDatabaseMistakeReportsWrongCertificates(t *testing.T) {
	dir := t.TempDir()
	files := TLSFiles{filepath.Join(dir, "a.crt"), filepath.Join(dir, "a.key")}
	other := TLSFiles{filepath.Join(dir, "b.crt"), filepath.Join(dir, "b.key")}
	writeCertificate(t, files, 1)
	writeCertificate(t, other, 2)
	c, err := newCertificate("database", files)
	if err != nil {
		t.Fatal(err)
	}
	secured, plain := secureDatabase(t, c.config()), secureDatabase(t, nil)
	for _, test := range []struct{ address, options, want string }{
		{secured, "sslmode=verify-full", "certificate cannot be verified"},
		{secured, "sslmode=verify-full&sslrootcert=" + other.Cert, "certificate cannot be verified"},
		{secured, "sslmode=verify-ca&sslrootcert=" + other.Cert, "certificate cannot be verified"},
		{secured, "sslmode=verify-full&sslrootcert=" + files.Cert, "certificate cannot be verified"}, // the certificate has no host name
		{plain, "sslmode=require", "speaks no TLS"},
		{"127.0.0.1:1", "sslmode=verify-full", ""},
	} {
		store, err := sqlstore.New("postgres://stint:hunter2@"+test.address+"/stint?"+test.options, sqlstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		p := preparer{store: store}
		err = p.store.Prepare(t.Context())
		switch wrong := databaseMistake(err); {
		case err == nil:
			t.Errorf("%s: Prepare succeeded", test.options)
		case test.want == "" && wrong != nil:
			t.Errorf("%s: got %v, want an outage", test.options, wrong)
		case test.want == "":
		case wrong == nil || !strings.Contains(wrong.Error(), test.want) || strings.ContainsAny(wrong.Error(), "\n") || strings.Contains(wrong.Error(), "hunter2"):
			t.Errorf("%s: got %v for %v, want one line with %q", test.options, wrong, err, test.want)
		}
		store.Close()
	}
}

// Waiting does not restore a table: a node that treats this as an outage would use the last known
// state.
func TestMissingTableIsNotOutageAtStart(t *testing.T) {
	f := storetest.OpenPostgres(t)
	f.Exec(t, "ALTER TABLE settings RENAME TO elsewhere")
	store, err := sqlstore.New(f.URL, sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Prepare(t.Context()); err == nil || isOutage(err) || !strings.Contains(err.Error(), "settings") {
		t.Errorf("got %v, want an error that names the table and is no outage", err)
	}
}
