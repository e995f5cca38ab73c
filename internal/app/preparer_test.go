package app

import (
	"crypto/tls"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/sqlstore/db"
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

// refusingDatabase answers as Postgres without TLS does, and refuses every session with a code.
func refusingDatabase(t *testing.T, code string) string {
	return servers.Listen(t, func(c net.Conn) {
		defer c.Close()
		backend := pgproto3.NewBackend(c, c)
		for {
			message, err := backend.ReceiveStartupMessage()
			if err != nil {
				return
			}
			if _, isTLS := message.(*pgproto3.SSLRequest); isTLS {
				_, _ = io.WriteString(c, "N")
				continue
			}
			backend.Send(&pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: code, Message: "refused for\n\ta reason"})
			_ = backend.Flush()
			return
		}
	})
}

func TestDatabaseMistakeReportsWhatIsWrongWithTheURL(t *testing.T) {
	dir := t.TempDir()
	files := TLSFiles{filepath.Join(dir, "a.crt"), filepath.Join(dir, "a.key")}
	other := TLSFiles{filepath.Join(dir, "b.crt"), filepath.Join(dir, "b.key")}
	writeCertificate(t, files, 1)
	writeCertificate(t, other, 2)
	c, err := newCertificate("listen", files)
	if err != nil {
		t.Fatal(err)
	}
	secured, plain := secureDatabase(t, c.config()), secureDatabase(t, nil)
	wrongPassword, missing, starting := refusingDatabase(t, "28P01"), refusingDatabase(t, "3D000"), refusingDatabase(t, "57P03")
	for _, test := range []struct{ address, options, want string }{
		{secured, "sslmode=verify-full", "certificate cannot be verified"},
		{secured, "sslmode=verify-full&sslrootcert=" + other.Cert, "certificate cannot be verified"},
		{secured, "sslmode=verify-ca&sslrootcert=" + other.Cert, "certificate cannot be verified"},
		{secured, "sslmode=verify-full&sslrootcert=" + files.Cert, "certificate cannot be verified"}, // the certificate has no host name
		{plain, "sslmode=require", "speaks no TLS"},
		{"127.0.0.1:1", "sslmode=verify-full", ""},
		// These servers have no TLS, which sslmode=prefer tries first.
		{wrongPassword, "sslmode=prefer", "refuses the user or the password"},
		{wrongPassword, "sslmode=disable", "refuses the user or the password"},
		{missing, "sslmode=prefer", "no such database"},
		{starting, "sslmode=prefer", ""},
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
		// Commands that use the database without a server say the same.
		_, err = db.MigrationStatus(t.Context(), "postgres://stint:hunter2@"+test.address+"/stint?"+test.options)
		if err = db.ExplainOffline(err); err == nil || !strings.Contains(err.Error(), test.want) || strings.ContainsAny(err.Error(), "\n\t") {
			t.Errorf("%s: the status of the migrations is %v, want one line with %q", test.options, err, test.want)
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
