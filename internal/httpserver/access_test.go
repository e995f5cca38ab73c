package httpserver

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/identity"
)

// tokens are the credentials of a node, by hash.
type tokens map[[32]byte]*identity.Token

func (tokens) Loaded() bool                   { return true }
func (tokens) Unconfirmed() (time.Time, bool) { return time.Time{}, false }
func (tokens) UsersRevision() int64           { return 0 }
func (t tokens) TokenByHash(hash [32]byte) (*identity.Token, bool) {
	token, found := t[hash]
	return token, found
}

// A download whose token is revoked is cut, so that it cannot be mistaken for complete.
func TestDownloadEndsWhenItsTokenIsRevoked(t *testing.T) {
	secret := identity.NewSecret([]identity.Access{identity.Read})
	known := tokens{secret.Hash: {ID: "1", Scopes: []identity.Access{identity.Read}}}
	server := New(Options{Credentials: known})
	watch := &AccessWatch{
		server: server, need: identity.Read,
		principal: &Principal{Kind: audit.Token, Proof: secret.Hash},
	}
	if watch.Ended() {
		t.Fatal("Ended of an active token is true")
	}
	conn, far := net.Pipe()
	defer conn.Close()
	defer far.Close()
	reader, writer := io.Pipe()
	go func() { _, _ = writer.Write([]byte("more")) }()
	body := &streamBody{head: []byte("a"), rest: reader, conn: conn, cancel: func() {}, access: watch}
	if _, err := body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	known[secret.Hash].Revoked = time.Now()
	watch.looked = time.Time{}
	if _, err := body.Read(make([]byte, 4)); !errors.Is(err, ErrAccessEnded) {
		t.Errorf("Read with a revoked token: got %v, want ErrAccessEnded", err)
	}
}

func TestTokenUseIsKeptUntilItIsWritten(t *testing.T) {
	first := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	u := tokenUse{used: map[string]time.Time{}}
	u.note("a", first)
	u.note("b", first)
	failed := u.take()
	u.note("b", first.Add(time.Minute)) // while it is written
	u.putBack(failed)
	if got := u.take(); len(got) != 2 || !got["a"].Equal(first) || !got["b"].Equal(first.Add(time.Minute)) {
		t.Errorf("take: got %v, want the use of a and the newer one of b", got)
	}
}
