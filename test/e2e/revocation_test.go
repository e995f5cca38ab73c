package e2e_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
)

// logIn returns the cookie of a new session.
func (n *node) logIn(t *testing.T, name, password string) string {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.PostForm(n.admin+"/login", url.Values{"name": {name}, "password": {password}})
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	for _, c := range response.Cookies() {
		if strings.Contains(c.Name, "stint") && c.Value != "" {
			return c.Name + "=" + c.Value
		}
	}
	t.Fatalf("the login of %s: got %s", name, response.Status)
	return ""
}

// stream opens /v1/events and returns a channel that is closed when it ends.
func (n *node) stream(t *testing.T, header, value string) <-chan struct{} {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), get, n.admin+wire.PathEvents, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set(header, value)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		t.Fatalf("GET /v1/events: got %s", response.Status)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, bufio.NewReader(response.Body))
	}()
	return ended
}

// Access is revoked on the first node. The streams on both must end.
func TestRevocationEndsEventStreamsOnEveryNode(t *testing.T) {
	s := shared(t)
	nodes := []*node{startNode(t, s.args()...), startNode(t, s.args()...)}
	for _, n := range nodes {
		n.awaitReady()
	}
	here := nodes[0]
	const password = "a password of the tests"
	id := func(a answer) string { return read[wire.User](t, a).ID }
	user := func(name string) (string, string) {
		made := id(here.must(http.StatusCreated, post, wire.PathUsers, fmt.Sprintf(`{"name":%q,"role":"operator","password":%q}`, name, password)))
		return made, here.logIn(t, name, password)
	}
	for name, end := range map[string]func(id string){
		"role":    func(id string) { here.must(http.StatusOK, patch, wire.PathUsers+"/"+id, `{"role":"viewer"}`) },
		"disable": func(id string) { here.must(http.StatusOK, patch, wire.PathUsers+"/"+id, `{"disabled":true}`) },
		"password": func(id string) {
			here.must(http.StatusOK, put, wire.PathUsers+"/"+id+"/password", `{"password":"another password"}`)
		},
		"delete": func(id string) { here.must(http.StatusNoContent, del, wire.PathUsers+"/"+id, "") },
	} {
		made, cookie := user("user-" + name)
		var streams []<-chan struct{}
		for _, n := range nodes {
			streams = append(streams, n.stream(t, "Cookie", cookie))
		}
		end(made)
		awaitEnds(t, name, streams)
	}
	token := read[wire.CreatedToken](t, here.must(http.StatusCreated, post, wire.PathTokens, `{"name":"stream","scopes":["read"]}`))
	var streams []<-chan struct{}
	for _, n := range nodes {
		servers.Await(t, "the node knows the token", func() bool {
			return n.send(get, n.admin+wire.PathWhoami, "", "Authorization: Bearer "+token.Secret).status == http.StatusOK
		})
		streams = append(streams, n.stream(t, "Authorization", "Bearer "+token.Secret))
	}
	here.must(http.StatusOK, del, wire.PathTokens+"/"+token.ID, "")
	awaitEnds(t, "a revoked token", streams)
}

func awaitEnds(t *testing.T, what string, streams []<-chan struct{}) {
	t.Helper()
	began := time.Now()
	for i, ended := range streams {
		select {
		case <-ended:
			t.Logf("%s: the stream of node %d ended after %v", what, i, time.Since(began).Round(time.Millisecond))
		case <-time.After(waitTimeout):
			t.Fatalf("%s: the stream of node %d has not ended", what, i)
		}
	}
}
