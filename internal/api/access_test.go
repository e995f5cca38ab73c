package api

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
)

// readToEnd reads a stream to its end and returns the text.
func readToEnd(t *testing.T, from *bufio.Reader) string {
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
		t.Fatal("the stream did not end within a minute")
	}
	return ""
}

// Another node makes the change, and no notification arrives: the node finds it by polling.
func TestEventStreamEndsWhenTokenIsRevokedOrExpires(t *testing.T) {
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
		if text := readToEnd(t, stream); !strings.Contains(text, "access of its token or login has ended") {
			t.Errorf("%s: got %q at the end of the stream, want the reason", name, text)
		}
		t.Logf("%s: the stream ended after %v", name, time.Since(began))
	}
	n.must(n.ask(`{"key":"token:a"}`), http.StatusOK)
	if _, e := next(t, kept); e.Kind == "notice" {
		t.Errorf("the stream of another token received %+v, want no notice", e)
	}
}

// lateBody begins a request whose token gives access, revokes the token after wait, and ends the
// body then.
func (n *testNode) lateBody(path, body string, wait time.Duration) answer {
	n.Helper()
	check := func(err error) {
		n.Helper()
		if err != nil {
			n.Fatal(err)
		}
	}
	secret := n.makeToken(identity.Token{Name: path, Scopes: []identity.Access{identity.Admin}})
	kind := "application/json"
	if strings.HasSuffix(path, "import") {
		kind = "text/csv"
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(n.admin, "http://"))
	check(err)
	defer conn.Close()
	check(conn.SetDeadline(time.Now().Add(wait + time.Minute)))
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n",
		path, secret, kind, len(body), body)
	check(err)
	time.Sleep(wait)
	all, err := n.store.Identities.Tokens(n.Context())
	check(err)
	for _, token := range all {
		if token.Name == path && token.Revoked.IsZero() {
			n.must(n.as(identity.Admin, http.MethodDelete, wire.PathTokens+"/"+token.ID, ""), http.StatusOK)
		}
	}
	time.Sleep(2 * httpserver.AccessInterval)
	_, err = io.WriteString(conn, "0\r\n\r\n")
	check(err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	check(err)
	text, err := io.ReadAll(response.Body)
	check(err)
	return answer{status: response.StatusCode, body: string(text)}
}

func TestRequestIsRejectedIfTokenIsRevokedDuringUpload(t *testing.T) {
	n := startNode(t)
	for path, body := range map[string]string{
		wire.PathTokens:               `{"name":"left behind","scopes":["admin"]}`,
		wire.PathBlocks:               `{"pattern":"token:left-behind","reason":"x"}`,
		wire.PathBlocks + "/import":   "pattern,reason\r\ntoken:left-behind,x\r\n",
		wire.PathProfiles + "/import": "key,plan\r\ntoken:left-behind,\r\n",
		wire.PathPolicySet:            `{"policies":[]}`,
	} {
		wait := 2 * httpserver.AccessInterval
		a := n.lateBody(path, body, wait)
		for strings.Contains(a.body, "was revoked") && wait < time.Minute { // before it was authorized, on a busy machine
			wait *= 2
			a = n.lateBody(path, body, wait)
		}
		if a.status != http.StatusUnauthorized || !strings.Contains(a.body, "no longer gives access") {
			t.Errorf("%s: got %d %s", path, a.status, a.body)
		}
	}
	if got := n.must(n.as(identity.Admin, http.MethodGet, wire.PathBlocks, ""), http.StatusOK).body; strings.Contains(got, "left-behind") {
		t.Errorf("a block was added: %s", got)
	}
}
