package db

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// refusedTLS is the text of an error of pgconn, which has no value for it.
const refusedTLS = "server refused TLS connection"

// Mistake returns, in one line, a mistake in the URL of a database or in its server's settings
// that err shows: a wrong user, password or database, a certificate, TLS. It returns nil if the
// database may only be unreachable for now. Waiting does not help against a mistake, and a node
// that treated it as an outage would start from the last known state.
//
// A connection is tried in several ways, with and without TLS and on each host: what a server
// answered after its handshake is more than what the others failed at.
func Mistake(err error) error {
	var (
		server    *pgconn.PgError
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		cause     error
	)
	if errors.As(err, &server) {
		switch server.Code {
		case "28P01", "28000": // invalid_password, invalid_authorization_specification
			return fmt.Errorf("the server refuses the user or the password of the URL (%s)", oneLine(server.Message))
		case "3D000": // invalid_catalog_name
			return fmt.Errorf("the server has no such database (%s); create it, or correct the name in the URL", oneLine(server.Message))
		}
		return nil
	}
	switch { // with sslmode=verify-ca they are not a tls.CertificateVerificationError
	case err == nil:
		return nil
	case errors.As(err, &authority):
		cause = authority
	case errors.As(err, &name):
		cause = name
	case errors.As(err, &invalid):
		cause = invalid
	case allAre(err, refusedTLS):
		return errors.New("it speaks no TLS, which sslmode requires; enable it there, or write sslmode=disable")
	default:
		return nil
	}
	return fmt.Errorf("its certificate cannot be verified (%s)", oneLine(cause.Error()))
}

// allAre reports whether every error that err wraps last has a text.
func allAre(err error, text string) bool {
	switch wrapping := err.(type) { //nolint:errorlint // it walks the tree itself
	case interface{ Unwrap() []error }:
		all := wrapping.Unwrap()
		for _, one := range all {
			if !allAre(one, text) {
				return false
			}
		}
		return len(all) > 0
	case interface{ Unwrap() error }:
		if inner := wrapping.Unwrap(); inner != nil {
			return allAre(inner, text)
		}
	}
	return err.Error() == text
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// ExplainOffline returns err for a command that uses a database without a server: the mistake
// that it shows, or its whole text, in one line.
func ExplainOffline(err error) error {
	if wrong := Mistake(err); wrong != nil {
		return fmt.Errorf("the database cannot be used: %w", wrong)
	}
	if err == nil || !strings.ContainsAny(err.Error(), "\n\t") {
		return err
	}
	return &onOneLine{err}
}

// onOneLine is an error whose text is in one line.
type onOneLine struct{ error }

func (o *onOneLine) Error() string { return oneLine(o.error.Error()) }
func (o *onOneLine) Unwrap() error { return o.error }
