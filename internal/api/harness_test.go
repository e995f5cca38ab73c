package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/admin/identities"
	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/admin/profiles"
	"github.com/stint-dev/stint/internal/admin/sources"
	"github.com/stint-dev/stint/internal/admin/usecases"
	"github.com/stint-dev/stint/internal/answers"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/bots"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/events"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/notify/channels"
	"github.com/stint-dev/stint/internal/notify/egress"
	"github.com/stint-dev/stint/internal/recorder"
	"github.com/stint-dev/stint/internal/reports"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/storetest"
)

// The methods that only tests name.
const (
	put   = http.MethodPut
	patch = http.MethodPatch
)

func TestMain(m *testing.M) { servers.Main(m) }

// clock is a clock that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// start is when every test begins.
var start = time.Date(2026, 1, 1, 12, 34, 31, 0, time.UTC)

// testNode is one running API on a real store, with a token of each scope.
type testNode struct {
	*testing.T
	clock  *clock
	store  *sqlstore.Store
	api    *API
	known  *catalog.Catalog
	server *httpserver.Server
	check  string // the base URL of the check listener
	admin  string
	tokens map[identity.Access]string
	logged *servers.Output

	events  *events.Hub
	channel testChannel

	list atomic.Pointer[string] // what the server of every source answers; nil: it is gone

	isUnreadable atomic.Bool // the node cannot read the database after a change
}

// nodeParts are the parts of a node that a test may change before the node starts.
type nodeParts struct {
	Deps
	Server httpserver.Options
	Extra  []httpserver.Route
	Change func(*httpserver.Route) // of each route of the API; nil for none
	Plain  bool                    // no fast path
	// Listen changes the check listener before anything reads from it; nil for none.
	Listen func(net.Listener) net.Listener
}

// startNode serves both listeners on free ports until the test ends, on a
// database of SQLite. change may alter what the API uses.
func startNode(t *testing.T, change ...func(*nodeParts)) *testNode {
	t.Helper()
	return startNodeOn(t, storetest.Migrated.SQLite(t), change...)
}

// onEachDatabase runs a test on a node on SQLite and on one on Postgres.
func onEachDatabase(t *testing.T, test func(t *testing.T, n *testNode), change ...func(*nodeParts)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) { test(t, startNode(t, change...)) })
	t.Run("Postgres", func(t *testing.T) { test(t, startNodeOn(t, storetest.Migrated.Postgres(t).URL, change...)) })
}

func startNodeOn(t *testing.T, location string, change ...func(*nodeParts)) *testNode {
	t.Helper()
	n := &testNode{T: t, clock: &clock{now: start}, tokens: map[identity.Access]string{}, logged: new(servers.Output)}
	ctx := context.Background()
	var known *catalog.Catalog
	store, err := sqlstore.Open(ctx, location, sqlstore.Options{
		Now: n.clock.Now,
		AfterChange: func(ctx context.Context) error {
			if known == nil { // the seed comes before it
				return nil
			}
			if n.isUnreadable.Load() {
				return io.ErrUnexpectedEOF
			}
			return known.Refresh(ctx)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.store = store
	n.events = events.New(events.Options{Now: n.clock.Now, Queue: 64})
	known = catalog.New(store, n.clock.Now)
	if err := known.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	log := memlog.New(memlog.Options{Now: n.clock.Now})
	entries := &admin.Entries{Store: store.Entries, View: known, Offences: store.Offences, Now: n.clock.Now}
	counter := recorder.NewRecorder(recorder.Options{Secret: func() []byte { return known.Settings().Secret }})
	counted := &admin.Detection{Store: store.Offences, Attacks: store.Attacks, Lists: store.BlockSources, Policies: store.Policies, View: known, Requests: counter, Now: n.clock.Now,
		Proposals: &admin.Proposals{Store: store.Proposals, Offences: store.Offences, Entries: entries, View: known, Now: n.clock.Now}}
	g := gate.New(gate.Options{View: known, Log: log, Recorder: gate.Recorders{counter, n.events}, Now: n.clock.Now})
	policies := admin.NewPolicies(store.Policies, admin.PolicyOptions{View: known, Now: n.clock.Now, Sample: func(ctx context.Context, from, to time.Time) (*admin.TrafficSample, error) {
		return admin.ReadTrafficSample(ctx, store.Offences, known.Settings().Secret, from, to)
	}})
	learned := answers.NewSites(answers.SitesOptions{Secret: func() []byte { return known.Settings().Secret }, Now: n.clock.Now, Store: store.Sites})
	d := nodeParts{
		Deps: Deps{
			Gate: g, Catalog: known, Events: n.events, Learned: learned,
			UseCases: usecases.UseCases{
				Profiles: &profiles.Profiles{View: known, Store: store.Profiles, Now: n.clock.Now},
				Keys: &admin.Keys{View: known, Gate: g, Escalations: counted, Logs: []timestamplog.Log{log}, Notes: store.Notes, Recorder: store.Audit, WasSeen: entries.WasSeen,
					Erasure: store.Erasure, Secret: func() []byte { return known.Settings().Secret }, Forget: func(context.Context, string) error { return nil }},
				Jobs:   &operations.Jobs{Runner: n.newJobs(store.Jobs), Recorder: store.Audit},
				Tokens: &identities.Tokens{Store: store.Identities, Now: n.clock.Now},
				Connect: &operations.Connect{
					Tokens: &identities.Tokens{Store: store.Identities, Now: n.clock.Now}, CheckURL: "http://0.0.0.0:8080", TokenHeader: "X-Stint-Token",
				},
				Users: &identities.Users{Store: store.Identities, Secret: func() []byte { return known.Settings().Secret }, Now: n.clock.Now},
				Sites: &operations.Sites{Sites: learned, Store: store.Sites},
				Bots:  &operations.Bots{Store: store.Offences, Directory: &bots.Directory{Lists: bots.NewLists("", nil, n.clock.Now)}, View: known, Now: n.clock.Now},
				Sources: &sources.Sources{
					Store: store.BlockSources, Entries: store.Entries, Leases: store.Jobs, View: known, Node: "test", Now: n.clock.Now, Log: slog.New(slog.DiscardHandler),
					Own: func() []netip.Prefix { return nil }, Fetch: n.fetchList,
				},
				Policies: policies, Entries: entries,
				Bouncers:  &admin.Bouncers{Store: store.Bouncers, Entries: store.Entries, View: known, Now: n.clock.Now},
				Detection: counted, Reports: &operations.Reports{
					Builder: &reports.Builder{Store: store.Reports, Counts: store.Offences, Detection: counted, Proposals: counted.Proposals, View: known, Now: n.clock.Now}, Recorder: store.Audit, Now: n.clock.Now,
				},
				Undo: &admin.Undo{Records: store.Audit, Store: store, Entries: entries, Policies: policies},
				Notifications: &operations.Notifications{
					Notifier: notify.New(notify.Options{Store: store.Outbox, Channels: []notify.Channel{&n.channel}, Now: n.clock.Now}),
					Outbox:   store.Outbox, Recorder: store.Audit, Channels: store.Channels,
					Builder: channels.Builder{Client: egress.New(egress.Options{})},
					Preset:  []operations.Channel{{Preset: true, Config: notify.Config{Name: "desk", Type: notify.Webhook}}},
					Now:     n.clock.Now,
				},
			}.OnStore(store, n.clock.Now),
			Now: n.clock.Now,
		},
		Server: httpserver.Options{
			Credentials: known, Tokens: store.Identities, SecretPaths: SecretPaths(),
			Throttle: httpserver.NewThrottle(httpserver.ThrottleOptions{Shared: memlog.New(memlog.Options{Now: n.clock.Now})}),
			Logger:   slog.New(slog.NewTextHandler(n.logged, nil)), Now: n.clock.Now,
		},
	}
	for _, c := range change {
		c(&d)
	}
	n.api, n.known = New(d.Deps), known
	routes := n.api.Routes()
	for i := range routes {
		if d.Change != nil {
			d.Change(&routes[i])
		}
	}
	n.server = httpserver.New(d.Server, routes, d.Extra)
	n.Cleanup(n.events.Close) // after which no stream keeps a listener open
	n.admin = n.serve(n.server.AdminApp(), framing)
	wraps := []func(net.Listener) net.Listener{framing}
	if d.Listen != nil {
		wraps = append([]func(net.Listener) net.Listener{d.Listen}, wraps...)
	}
	if !d.Plain {
		wraps = append(wraps, n.server.CheckListener)
	}
	n.check = n.serve(n.server.CheckApp(), wraps...)
	t.Cleanup(func() { _ = store.Close() })
	for _, scope := range []identity.Access{identity.Check, identity.Read, identity.Operate, identity.Admin} {
		n.tokens[scope] = n.makeToken(identity.Token{Name: "test-" + string(scope), Scopes: []identity.Access{scope}})
	}
	return n
}

func framing(l net.Listener) net.Listener { return httpserver.FramingListener(l, nil) }

func (n *testNode) serve(app *fiber.App, wraps ...func(net.Listener) net.Listener) string {
	n.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		n.Fatal(err)
	}
	done := make(chan error, 1)
	for _, wrap := range wraps {
		listener = wrap(listener)
	}
	go func() { done <- app.Listener(listener) }()
	n.Cleanup(func() {
		if err := app.ShutdownWithTimeout(time.Second); err != nil {
			n.Logf("shutdown: %v", err)
		}
		_ = listener.Close() // a server that was shut down before it served would go on
		<-done
	})
	return "http://" + listener.Addr().String()
}

// makeToken adds a token straight to the store and returns its secret.
func (n *testNode) makeToken(token identity.Token) string {
	n.Helper()
	secret := identity.NewSecret(token.Scopes)
	token.Hint, token.Hash = secret.Hint, secret.Hash[:]
	if _, err := n.store.Identities.AddToken(context.Background(), audit.SystemActor("test"), token); err != nil {
		n.Fatal(err)
	}
	return secret.Text
}

// answer is the response to a request.
type answer struct {
	status int
	header http.Header
	body   string
}

// send makes one request. headers are "Name: value".
func (n *testNode) send(method, url, body string, headers ...string) answer {
	n.Helper()
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		n.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		n.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		n.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(text)}
}

// ask sends one check.
func (n *testNode) ask(body string) answer {
	n.Helper()
	return n.send(http.MethodPost, n.check+wire.PathCheck, body)
}

// as sends an admin request with the token of that scope.
func (n *testNode) as(scope identity.Access, method, path, body string, headers ...string) answer {
	n.Helper()
	return n.send(method, n.admin+path, body, append([]string{"Authorization: Bearer " + n.tokens[scope]}, headers...)...)
}

// must fails the test unless the answer has that status.
func (n *testNode) must(a answer, status int) answer {
	n.Helper()
	if a.status != status {
		n.Fatalf("got %d, want %d: %s", a.status, status, a.body)
	}
	return a
}

// read decodes an answer strictly.
func read[T any](t testing.TB, a answer) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), &v, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("%v\n%s", err, a.body)
	}
	return v
}

// wantProblem checks that an answer is a problem about a field.
func (n *testNode) wantProblem(a answer, status int, field string) wire.Problem {
	n.Helper()
	if a.status != status || a.header.Get("Content-Type") != wire.ProblemType {
		n.Fatalf("got %d %s, want a problem with %d: %s", a.status, a.header.Get("Content-Type"), status, a.body)
	}
	p := read[wire.Problem](n, a)
	if p.Status != status || p.Field != field || p.Detail == "" || p.Code == "" || p.RequestID == "" {
		n.Fatalf("got the problem %s, want status %d and field %q", a.body, status, field)
	}
	return p
}

// ifMatch returns the header for the present state of a path.
func (n *testNode) ifMatch(path string) string {
	n.Helper()
	return "If-Match: " + n.must(n.as(reader, get, path, ""), http.StatusOK).header.Get("ETag")
}

// fetchList answers as the server of a list.
func (n *testNode) fetchList(context.Context, sources.Request) (*sources.Answer, error) {
	text := n.list.Load()
	if text == nil {
		return nil, errors.New("the receiver answered 404")
	}
	return &sources.Answer{Body: io.NopCloser(strings.NewReader(*text))}, nil
}

// publish sets what the server of every source answers: so many addresses from a first one on.
func (n *testNode) publish(first, count int) {
	var b strings.Builder
	for i := range count {
		fmt.Fprintf(&b, "198.51.%d.%d\n", (first+i)/256, (first+i)%256)
	}
	text := b.String()
	n.list.Store(&text)
}
