package client

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/wire"
)

func TestAServerThatTakesAChangeAndDoesNotAnswerMayHaveMadeIt(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
	}))
	c, err := New(server.URL, "", "")
	if err != nil {
		t.Fatal(err)
	}
	change := func() error {
		_, err := c.Tokens.Create(t.Context(), wire.TokenRequest{Name: "ci"})
		return err
	}
	_, read := c.Tokens.List(t.Context())
	_, check := c.Checks.Check(t.Context(), wire.CheckRequest{Key: "a"})
	sent := change()
	server.Close()
	for name, test := range map[string]struct {
		err       error
		maybeDone bool
	}{"a change": {sent, true}, "a read": {read, false}, "a check": {check, false}, "a change that was not sent": {change(), false}} {
		var unreachable *Unreachable
		if !errors.As(test.err, &unreachable) || unreachable.MaybeDone != test.maybeDone || strings.Contains(test.err.Error(), "may have been saved") != test.maybeDone {
			t.Errorf("%s: %v", name, test.err)
		}
	}
}
