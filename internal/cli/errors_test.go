package cli

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/wire"
)

// The text of a problem is for people and may change.
func TestExitCodeIgnoresTheTextOfAProblem(t *testing.T) {
	for name, test := range map[string]struct {
		problem wire.Problem
		want    console.Code
	}{
		"a wrong field":                  {wire.Problem{Status: http.StatusUnprocessableEntity, Code: "invalid", Field: "policy", Detail: "policy: there is no room"}, console.Usage},
		"a field that names nothing":     {wire.Problem{Status: http.StatusUnprocessableEntity, Code: "invalid", Field: "policy", Detail: "policy: unknown", Unknown: true}, console.NotFound},
		"a path that names nothing":      {wire.Problem{Status: http.StatusNotFound, Code: "not_found"}, console.NotFound},
		"a confirmation that is missing": {wire.Problem{Status: http.StatusConflict, Code: "confirmation_required"}, console.Unconfirmed},
		"a conflict":                     {wire.Problem{Status: http.StatusConflict, Code: "conflict"}, console.Failed},
	} {
		if got := codeOf(&test.problem); got != test.want {
			t.Errorf("%s: codeOf: got %d, want %d", name, got, test.want)
		}
	}
}

func TestInterruptionSaysWhetherTheChangeMayBeSaved(t *testing.T) {
	taken := &client.Unreachable{URL: "http://node", Err: context.Canceled, MaybeDone: true}
	if got := codeOf(taken); got != console.Interrupted {
		t.Errorf("the exit code is %d, want %d", got, console.Interrupted)
	}
	if got := strings.Join(explain(taken), " "); !strings.Contains(got, "(interrupted); the change may have been saved") {
		t.Errorf("explain: got %q, want that the change may have been saved", got)
	}
	if got := strings.Join(explain(context.Canceled), " "); got != "interrupted" || codeOf(context.Canceled) != console.Interrupted {
		t.Errorf("explain of an interruption before the request: got %q", got)
	}
}

func TestErrorsOfAServerWithOtherTLSSayWhatToChange(t *testing.T) {
	for name, c := range map[string]struct {
		start func(http.Handler) *httptest.Server
		url   func(string) string
		want  string
	}{
		"a certificate of nobody known": {httptest.NewTLSServer, func(url string) string { return url }, "SSL_CERT_FILE"},
		"http where it has TLS":         {newClosingServer, func(url string) string { return url }, "as one does that speaks https; set its address with --url or STINT_ADMIN_URL"},
		"https where it has none":       {httptest.NewServer, func(url string) string { return "https" + strings.TrimPrefix(url, "http") }, "it speaks http, not https; set its address"},
	} {
		server := c.start(http.NotFoundHandler())
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		defer server.Close()
		caller, err := client.New(c.url(server.URL), "", "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Call(t.Context(), caller, wire.WhoAmI, wire.None{})
		if got := strings.Join(explain(err), " "); !strings.Contains(got, c.want) || strings.Contains(got, "start the server") || codeOf(err) != console.Unreachable {
			t.Errorf("%s: %q, exit code %d", name, got, codeOf(err))
		}
	}
}

// A server that ends during a change closes the connection like one that speaks https.
func TestLostAnswerToAChangeGivesNoOtherAddress(t *testing.T) {
	server := newClosingServer(nil)
	defer server.Close()
	caller, err := client.New(server.URL, "", "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Call(t.Context(), caller, wire.RevokeToken, wire.ByID{ID: "some-id"})
	if got := strings.Join(explain(err), " "); !strings.Contains(got, "the change may have been saved") || strings.Contains(got, "set its address") || strings.Contains(got, "https") {
		t.Errorf("explain: got %q", got)
	}
}

// newClosingServer closes each connection that does not begin a handshake, as a node does.
func newClosingServer(http.Handler) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			c.Close()
		}
	}))
}
