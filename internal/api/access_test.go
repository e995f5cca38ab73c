package api

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/test/servers"
)

// untilEnd reads a stream to its end and returns what came.
func untilEnd(t *testing.T, from *bufio.Reader) string {
	t.Helper()
	type end struct {
		text []byte
		err  error
	}
	ended := make(chan end, 1)
	go func() {
		text, err := io.ReadAll(from)
		ended <- end{text, err}
	}()
	select {
	case e := <-ended:
		if e.err != nil {
			t.Fatalf("the stream ended with %v", e.err)
		}
		return string(e.text)
	case <-time.After(time.Minute):
		t.Fatal("the stream goes on")
	}
	return ""
}

// The change is made by another node, and no notification comes: the node hears
// of it by its own poll.
func TestAStreamEndsWhenItsTokenIsRevokedOrExpires(t *testing.T) {
	url := servers.Postgres(t).URL
	n := startNodeOn(t, url)
	go n.known.Run(t.Context())
	other, err := sqlstore.Open(t.Context(), url, sqlstore.Options{Now: n.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	tokenOf := func(name string) (id, secret string) {
		secret = n.makeToken(identity.Token{Name: name, Scopes: []identity.Access{identity.Read}})
		all, err := n.store.Identities.Tokens(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, token := range all {
			if token.Name == name {
				id = token.ID
			}
		}
		return id, secret
	}
	kept := n.listen("")
	for name, end := range map[string]func(id string) error{
		"revoked": func(id string) error {
			_, err := other.Identities.RevokeToken(t.Context(), audit.SystemActor("test"), id)
			return err
		},
		"rotated without an overlap": func(id string) error {
			_, _, err := other.Identities.RotateToken(t.Context(), audit.SystemActor("test"), id, identity.NewSecret(nil), 0)
			return err
		},
		"expired": func(id string) error {
			at := n.clock.Now().Add(time.Hour)
			_, err := other.Identities.UpdateToken(t.Context(), audit.SystemActor("test"), id, identity.TokenUpdate{Expires: &at})
			n.clock.Add(2 * time.Hour)
			return err
		},
	} {
		id, secret := tokenOf(name)
		stream := n.listen("", "Authorization: Bearer "+secret)
		if err := end(id); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if text := untilEnd(t, stream); !strings.Contains(text, "access of its token or login has ended") {
			t.Errorf("%s: the stream does not say why it ended: %q", name, text)
		}
		t.Logf("%s: the stream ended after %v", name, time.Since(began))
	}
	n.must(n.ask(`{"key":"token:a"}`), http.StatusOK)
	if _, e := next(t, kept); e.Kind == "notice" {
		t.Errorf("another token's stream: %+v", e)
	}
}
