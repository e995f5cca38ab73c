package parity

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"regexp"
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
	operatorName   = "maria"
	password       = "correct horse battery"
)

// node is a whole embedded node, on SQLite, and what the operator logs in to it with.
type node struct {
	admin, checks string // base URLs
	token         string // of the operator
	pages         *http.Client
	csrf          string
	started       time.Time
}

// operator makes changes at one front end.
type operator struct {
	*node
	t  *testing.T
	by frontEnd
	// name and octet are parts of the names and addresses that this operator alone changes, so that
	// the changes at one front end do not meet those at another.
	name, octet string
	ids         []string // of what setUpID has made, and the texts "entry ID" of audit records
	*comparison
}

// at returns the operator at a front end, in a test or a subtest.
func (n *node) at(by frontEnd, t *testing.T) *operator {
	octets := map[frontEnd]string{byREST: "171", byPage: "172", byCommand: "173"}
	return &operator{node: n, t: t, by: by, name: "via" + string(by), octet: octets[by]}
}

// address returns an address in a network of two octets.
func (o *operator) address(network string, last int) string {
	return fmt.Sprintf("%s.%s.%d", network, o.octet, last)
}

// startNode starts a node, with the operator as a user and a token.
func startNode(t *testing.T) *operator {
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
	n := &node{admin: base(started.AdminAddr()), checks: base(started.CheckAddr()), started: time.Now()}
	o := n.at(byREST, t)
	n.token = o.setUp(send("POST", wire.PathTokens, object{"name": operatorName, "scopes": list{"admin"}})).member("secret")
	o.setUp(send("POST", wire.PathUsers, object{"name": operatorName, "role": "admin", "password": password}))
	// The kinds of keys that the changes use are those of a policy: unknown ones would have to be meant literally.
	kinds := list{"while:x"}
	for _, by := range frontEnds {
		kinds = append(kinds, n.at(by, t).name+":x")
	}
	o.setUp(send("PUT", wire.PathPolicies+"/kinds?confirm=kinds", object{"match": kinds, "rules": list{}, "mode": "off"}))
	n.pages, n.csrf = o.logIn(operatorName)
	return o
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// logIn returns the session of a user at the pages, and its CSRF token.
func (o *operator) logIn(user string) (session *http.Client, csrf string) {
	o.t.Helper()
	jar, err := cookiejar.New(nil)
	must(o.t, err)
	session = &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	own := &operator{node: &node{admin: o.admin, pages: session}, t: o.t}
	own.submit("/login", "name", user, "password", password).wants(http.StatusSeeOther)
	return session, own.page("/account").hidden("csrf")
}

// setUpTOTP has a user set up two-factor authentication on the own page. Nobody else can, and no
// other front end has it.
func (o *operator) setUpTOTP(user string) {
	o.t.Helper()
	own := &operator{node: &node{admin: o.admin}, t: o.t}
	own.pages, own.csrf = o.logIn(user)
	page := own.submit("/account/totp/start")
	page.wants(http.StatusOK)
	secret := regexp.MustCompile(`aria-label="The secret">([A-Z2-7\s]+)<`).FindStringSubmatch(page.body)
	if secret == nil {
		o.t.Fatalf("no secret is shown: %s", pageText(page.body))
	}
	code, err := totp.GenerateCode(strings.Join(strings.Fields(secret[1]), ""), time.Now())
	must(o.t, err)
	own.submit("/account/totp", "code", code, "password", password).wants(http.StatusOK)
}

// ask sends a request to REST by the operator's token.
func (o *operator) ask(r *request) *answer { return o.askAs(o.token, r) }

// setUp sends a request to REST by another operator, and fails unless it succeeds.
func (o *operator) setUp(r *request) *answer {
	o.t.Helper()
	a := o.askAs(bootstrapToken, r)
	if a.status >= 300 {
		o.t.Fatalf("%s %s: %d %s", r.method, r.path, a.status, a.body)
	}
	return a
}

// setUpID is setUp for something with an id, which it returns.
func (o *operator) setUpID(r *request) string {
	o.t.Helper()
	id := o.setUp(r).member("id")
	o.ids = append(o.ids, id)
	return id
}

// get reads a path of REST.
func (o *operator) get(path string) *answer { return o.setUp(send("GET", path)) }

// await repeats a request to REST until its answer has a text: until what was counted has been
// flushed, or a job that runs by its schedule has ended.
func (o *operator) await(r *request, text string) *answer {
	o.t.Helper()
	for range 900 {
		if a := o.askAs(bootstrapToken, r); a.status < 300 && strings.Contains(a.body, text) {
			return a
		}
		time.Sleep(100 * time.Millisecond)
	}
	o.t.Fatalf("%s %s: the answer never had %q", r.method, r.path, text)
	return nil
}

func (o *operator) askAs(token string, r *request) *answer {
	o.t.Helper()
	header := http.Header{"Authorization": {"Bearer " + token}}
	var text string
	switch body := r.body.(type) {
	case object:
		text = jsonOf(o.t, body)
		header.Set("Content-Type", "application/json")
	case plainText:
		text = string(body)
		header.Set("Content-Type", "text/plain")
	case csvText:
		text = string(body)
		header.Set("Content-Type", "text/csv")
	}
	switch r.tag {
	case "":
	case "*":
		header.Set("If-Match", "*")
	default:
		header.Set("If-Match", strconv.Quote(r.tag))
	}
	return o.exchange(http.DefaultClient, r.method, o.admin+r.path, text, header)
}

// page reads a page.
func (o *operator) page(path string) *answer {
	o.t.Helper()
	return o.exchange(o.pages, "GET", o.admin+path, "", nil)
}

// submit sends the form of a page, with its fields in pairs of name and value.
func (o *operator) submit(path string, fields ...string) *answer {
	o.t.Helper()
	return o.sendForm(path, "", fields)
}

// upload sends the form of a page that imports a list.
func (o *operator) upload(path, list string, fields ...string) *answer {
	o.t.Helper()
	return o.sendForm(path, list, fields)
}

func (o *operator) sendForm(path, list string, fields []string) *answer {
	o.t.Helper()
	body, mediaType := encodeForm(o.t, append([]string{"csrf", o.csrf}, fields...), list)
	return o.exchange(o.pages, "POST", o.admin+path, body, http.Header{"Content-Type": {mediaType}})
}

func (o *operator) exchange(client *http.Client, method, address, body string, header http.Header) *answer {
	o.t.Helper()
	q, err := http.NewRequestWithContext(context.Background(), method, address, strings.NewReader(body))
	must(o.t, err)
	if header != nil {
		q.Header = header
	}
	response, err := client.Do(q)
	must(o.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(o.t, err)
	return &answer{t: o.t, status: response.StatusCode, header: response.Header, body: string(text)}
}

// check makes checks of a key, whatever their decisions.
func (o *operator) check(key string, count int) {
	o.t.Helper()
	for range count {
		header := http.Header{"Content-Type": {"application/json"}}
		a := o.exchange(http.DefaultClient, "POST", o.checks+wire.PathCheck, jsonOf(o.t, object{"key": key}), header)
		if a.status != http.StatusOK && a.status != http.StatusTooManyRequests {
			o.t.Fatalf("a check of %s: %d", key, a.status)
		}
	}
}

// unknownTag is the ETag of no state.
const unknownTag = "0123456789abcdef"

// tag returns the ETag of what a path of REST answers.
func (o *operator) tag(path string) string {
	return strings.Trim(o.ask(send("GET", path)).header.Get("ETag"), `"`)
}

// policyTag returns the ETag of a version of a policy, or one of no state if there is no such version.
func (o *operator) policyTag(policy string, version int) string {
	o.t.Helper()
	var all struct {
		Items []struct {
			Version int
			ETag    string
		}
	}
	must(o.t, json.Unmarshal([]byte(o.ask(send("GET", wire.PathPolicies+"/"+policy+"/versions")).body), &all))
	for _, p := range all.Items {
		if p.Version == version {
			return p.ETag
		}
	}
	return fmt.Sprintf("%d-%s", version, unknownTag)
}

func jsonOf(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	must(t, err)
	return string(text)
}
