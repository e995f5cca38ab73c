package parity

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/stint-dev/stint/internal/app"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// The credentials of the tests. The operator has one name as a user of the pages and
// as the token of REST and of the commands, so that authors compare.
const (
	bootstrapToken = "c110adca9f5c1b7d2830694ef1a5c3d7"
	operator       = "maria"
	password       = "correct horse battery"
)

// node is a whole embedded node in this process, on SQLite.
type node struct {
	admin, checks string // base URLs
	token         string // of the operator
	pages         *http.Client
	csrf          string
}

func startNode(t *testing.T) *node {
	t.Helper()
	webhook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(webhook.Close)
	settings, err := app.Load([]string{
		"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", t.TempDir(), "--log-level", "error",
		"--proposal-min-addresses", "2", "--escalation-safety-limit", "1%", "--notify-allow-private", "true",
	}, []string{"STINT_ADMIN_TOKEN=" + bootstrapToken, "STINT_PRESET=api", "STINT_NOTIFY_WEBHOOK_URL=" + webhook.URL})
	must(t, err)
	started, err := app.New(context.Background(), settings, io.Discard, os.Stderr)
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- started.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		must(t, <-ended)
	})
	base := func(a net.Addr) string { return "http://" + a.String() }
	n := &node{admin: base(started.AdminAddr()), checks: base(started.CheckAddr()), token: bootstrapToken}
	created := n.rest(t, request{"POST", wire.PathTokens, `{"name":"` + operator + `","scopes":["admin"]}`}, n.token)
	created.wants(t, http.StatusCreated)
	n.rest(t, request{"POST", wire.PathUsers, `{"name":"` + operator + `","role":"admin","password":"` + password + `"}`}, n.token).wants(t, http.StatusCreated)
	n.token = created.member(t, "secret")
	// The kinds of the tables are those of a policy: unknown ones would have to be meant literally.
	n.rest(t, request{"PUT", wire.PathPolicies + "/kinds?confirm=kinds", `{"match":["while:x","via` + rest + `:x","via` + pages + `:x","via` + cmd + `:x"],"rules":[],"mode":"off"}`}, n.token).wants(t, http.StatusCreated)
	n.logIn(t)
	return n
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (n *node) logIn(t *testing.T) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	must(t, err)
	n.pages = &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	n.submit(t, form{path: "/login", fields: []string{"name", operator, "password", password}}).wants(t, http.StatusSeeOther)
	page := n.send(t, n.pages, request{"GET", "/blocks", ""}, nil)
	page.wants(t, http.StatusOK)
	n.csrf = page.hidden(t, "csrf")
}

// setUpTOTP logs a user in, who sets up two-factor authentication on the own page. Nobody else
// can: no other front end has it.
func (n *node) setUpTOTP(t *testing.T, user string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	must(t, err)
	own := &node{admin: n.admin, pages: &http.Client{Jar: jar, CheckRedirect: n.pages.CheckRedirect}}
	own.submit(t, form{path: "/login", fields: []string{"name", user, "password", password}}).wants(t, http.StatusSeeOther)
	own.csrf = own.send(t, own.pages, request{"GET", "/account", ""}, nil).hidden(t, "csrf")
	page := own.submit(t, form{path: "/account/totp/start"})
	page.wants(t, http.StatusOK)
	secret := regexp.MustCompile(`aria-label="The secret">([A-Z2-7\s]+)<`).FindStringSubmatch(page.body)
	if secret == nil {
		t.Fatalf("no secret is shown: %s", pageText(page.body))
	}
	code, err := totp.GenerateCode(strings.Join(strings.Fields(secret[1]), ""), time.Now())
	must(t, err)
	own.submit(t, form{path: "/account/totp", fields: []string{"code", code, "password", password}}).wants(t, http.StatusOK)
}

// rest sends a request with a token.
func (n *node) rest(t *testing.T, r request, token string) *answer {
	t.Helper()
	header := http.Header{"Authorization": {"Bearer " + token}}
	switch {
	case strings.HasPrefix(r.path, wire.PathBlockImport), strings.HasPrefix(r.path, wire.PathExemptionImport):
		header.Set("Content-Type", "text/plain")
	case strings.HasPrefix(r.path, wire.PathProfiles+"/import"):
		header.Set("Content-Type", "text/csv")
	case r.body != "":
		header.Set("Content-Type", "application/json")
	}
	if path, version, has := strings.Cut(r.path, " if "); has {
		r.path = path
		if version != "*" {
			version = strconv.Quote(n.tagOf(t, path, version))
		}
		header.Set("If-Match", version)
	}
	return n.send(t, http.DefaultClient, r, header)
}

// submit sends the form of a page.
func (n *node) submit(t *testing.T, f form) *answer {
	t.Helper()
	f.fields = slices.Clone(f.fields)
	for i := 0; i < len(f.fields); i += 2 {
		if f.fields[i] == "expect" {
			f.fields[i+1] = n.tagOf(t, f.path, f.fields[i+1])
		}
	}
	body, mediaType := f.encode(t, n.csrf)
	return n.send(t, n.pages, request{"POST", f.path, body}, http.Header{"Content-Type": {mediaType}})
}

func (n *node) send(t *testing.T, client *http.Client, r request, header http.Header) *answer {
	t.Helper()
	q, err := http.NewRequestWithContext(context.Background(), r.method, n.admin+r.path, strings.NewReader(r.body))
	must(t, err)
	if header != nil {
		q.Header = header
	}
	response, err := client.Do(q)
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	return &answer{status: response.StatusCode, header: response.Header, body: string(text)}
}

// check makes one check, whatever its decision.
func (n *node) check(t *testing.T, key string) {
	t.Helper()
	response, err := http.Post(n.checks+wire.PathCheck, "application/json", strings.NewReader(`{"key":"`+key+`"}`)) //nolint:noctx // of a test
	must(t, err)
	response.Body.Close()
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusTooManyRequests {
		t.Fatalf("a check of %s: %d", key, response.StatusCode)
	}
}

// file writes a file for a command.
func file(t *testing.T, content string) string {
	path := filepath.Join(t.TempDir(), "file.txt")
	must(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}
