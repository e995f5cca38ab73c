package adminui_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/argon2"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/admin/identities"
	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/admin/profiles"
	"github.com/stint-dev/stint/internal/admin/sources"
	"github.com/stint-dev/stint/internal/admin/usecases"
	"github.com/stint-dev/stint/internal/adminui"
	"github.com/stint-dev/stint/internal/adminui/administration"
	"github.com/stint-dev/stint/internal/answers"
	"github.com/stint-dev/stint/internal/api"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/bots"
	"github.com/stint-dev/stint/internal/breakdown"
	"github.com/stint-dev/stint/internal/buildinfo"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/events"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/recorder"
	"github.com/stint-dev/stint/internal/reports"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/storetest"
)

// clock is the clock of a node, which tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// node is a real node in this process: SQLite, the log in memory, the gate, the
// API and the pages.
type node struct {
	store     *sqlstore.Store
	catalog   *catalog.Catalog
	clock     *clock
	url       string // of the pages
	checks    string // of the checks
	logs      *servers.Output
	routes    []httpserver.Route // of the pages
	detection *admin.Detection
	flusher   *recorder.Flusher
	events    *events.Hub
	gate      *gate.Gate
	failed    *identities.FailedLogins
	throttle  *httpserver.Throttle

	list         string      // what the server of every source answers
	isUnreadable atomic.Bool // reading the database after a change fails
}

// flush writes what was counted, as a node does each second.
func (n *node) flush(t testing.TB) {
	t.Helper()
	must(t, n.flusher.Flush(context.Background()))
}

const password = "correct horse battery"

// start is when the tests' clock begins: second 14 of the current minute, since
// browsers and cookie jars use their own clock. STINT_TEST_START sets
// another time (2028-02-28T23:59:14Z) for the tests.
var start = func() time.Time {
	if given := os.Getenv("STINT_TEST_START"); given != "" {
		at, err := time.Parse(time.RFC3339, given)
		if err != nil || at.Second() != 14 {
			panic("STINT_TEST_START must be a time at second 14, such as 2028-02-28T23:59:14Z, not " + given)
		}
		return at.UTC()
	}
	return time.Now().UTC().Truncate(time.Minute).Add(14 * time.Second)
}()

// clockAt returns the text of pages for the time d after start.
func clockAt(d time.Duration) string { return start.Add(d).Format("15:04:05.0") }

func newNode(t testing.TB, change ...func(*adminui.Deps)) *node {
	t.Helper()
	return newNodeOn(t, storetest.Migrated.SQLite(t), change...)
}

// newNodeOn returns a node with the database at a URL.
func newNodeOn(t testing.TB, database string, change ...func(*adminui.Deps)) *node {
	t.Helper()
	n := &node{clock: &clock{now: start}, logs: new(servers.Output)}
	ctx := context.Background()
	var err error
	n.store, err = sqlstore.Open(ctx, database, sqlstore.Options{
		Now: n.clock.Now,
		AfterChange: func(ctx context.Context) error {
			if n.catalog == nil { // the seed comes before it
				return nil
			}
			if n.isUnreadable.Load() {
				return io.ErrUnexpectedEOF
			}
			return n.catalog.Refresh(ctx)
		},
	})
	must(t, err)
	n.catalog = catalog.New(n.store, n.clock.Now)
	must(t, n.catalog.Refresh(ctx))
	log := memlog.New(memlog.Options{Now: n.clock.Now})
	secret := func() []byte { return n.catalog.Settings().Secret }
	counter := recorder.NewRecorder(recorder.Options{Secret: secret, Node: "a"})
	n.flusher = recorder.NewFlusher(recorder.FlusherOptions{
		Recorder: counter, Sink: n.store.Offences, Node: "a", Secret: secret, Now: n.clock.Now,
		Escalations: func() map[int64]offences.EscalationPolicy {
			return offences.EscalationsOf(n.catalog.Selector().Policies())
		},
	})
	n.events = events.New(events.Options{Now: n.clock.Now, Parser: n.catalog.Parser})
	entries := &admin.Entries{Store: n.store.Entries, View: n.catalog, Offences: n.store.Offences, Now: n.clock.Now}
	n.detection = &admin.Detection{Store: n.store.Offences, Attacks: n.store.Attacks, Lists: n.store.BlockSources, Policies: n.store.Policies, View: n.catalog, Requests: counter, Now: n.clock.Now,
		Proposals: &admin.Proposals{Store: n.store.Proposals, Offences: n.store.Offences, Entries: entries, View: n.catalog, Now: n.clock.Now},
		Secret:    func() []byte { return n.catalog.Settings().Secret }}
	n.gate = gate.New(gate.Options{View: n.catalog, Log: log, Now: n.clock.Now, Recorder: gate.Recorders{counter, n.events}, Reports: counter})
	throttle := httpserver.NewThrottle(httpserver.ThrottleOptions{Shared: memlog.New(memlog.Options{Now: n.clock.Now}), Known: n.catalog.KnownLogin})
	n.failed, n.throttle = &identities.FailedLogins{}, throttle
	logger := slog.New(slog.NewTextHandler(n.logs, &slog.HandlerOptions{Level: slog.LevelWarn}))
	runner, err := jobs.New(jobs.Options{Store: n.store.Jobs, Node: "a", Now: n.clock.Now, Log: logger}, someJobs()...)
	must(t, err)
	adminAt, checksAt := listener(t), listener(t)
	n.url, n.checks = "http://"+adminAt.Addr().String(), "http://"+checksAt.Addr().String()
	profileUse := &profiles.Profiles{View: n.catalog, Store: n.store.Profiles, Now: n.clock.Now}
	keyUse := &admin.Keys{
		View: n.catalog, Gate: n.gate, Escalations: n.detection, Logs: []timestamplog.Log{log}, Notes: n.store.Notes, Recorder: n.store.Audit, WasSeen: entries.WasSeen,
		Erasure: n.store.Erasure, Secret: secret, Forget: func(context.Context, string) error { return nil },
	}
	tokens, users := &identities.Tokens{Store: n.store.Identities, Now: n.clock.Now}, &identities.Users{Store: n.store.Identities, Secret: secret, Now: n.clock.Now}
	connect := &operations.Connect{Tokens: tokens, CheckURL: n.checks, TokenHeader: "X-Stint-Token", NeedsToken: true}
	logins := &identities.Logins{
		Users: n.store.Identities, Factors: n.store.Factors, Throttle: throttle, Failed: n.failed, Now: n.clock.Now,
		Sessions: identities.NewSessions(identities.SessionOptions{Store: n.store.Identities, Pending: n.store.Factors, UsersRevision: n.catalog.UsersRevision, Now: n.clock.Now}),
	}
	policies := admin.NewPolicies(n.store.Policies, admin.PolicyOptions{View: n.catalog, Now: n.clock.Now,
		Paths: func(ctx context.Context, from, to time.Time) (*admin.PathSample, error) {
			return admin.ReadPathSample(ctx, n.store.Offences, secret(), from, to)
		},
		Sample: func(ctx context.Context, from, to time.Time) (*admin.TrafficSample, error) {
			return admin.ReadTrafficSample(ctx, n.store.Offences, secret(), from, to)
		}})
	use := usecases.UseCases{
		Policies: policies, Tokens: tokens, Connect: connect, Users: users, Entries: entries,
		Detection: n.detection, Keys: keyUse, Profiles: profileUse, Undo: &admin.Undo{Records: n.store.Audit, Store: n.store, Entries: entries, Policies: policies},
		Sources: &sources.Sources{
			Store: n.store.BlockSources, Entries: n.store.Entries, Leases: n.store.Jobs, View: n.catalog, Node: "a", Now: n.clock.Now, Log: logger,
			Own: func() []netip.Prefix { return nil },
			Fetch: func(context.Context, sources.Request) (*sources.Answer, error) {
				return &sources.Answer{Body: io.NopCloser(strings.NewReader(n.list))}, nil
			},
		},
		Bouncers:      &admin.Bouncers{Store: n.store.Bouncers, Now: n.clock.Now},
		Bots:          someBots(t, n),
		Sites:         &operations.Sites{Sites: answers.NewSites(answers.SitesOptions{Now: n.clock.Now, Store: n.store.Sites, Secret: func() []byte { return []byte("sites") }}), Store: n.store.Sites},
		Notifications: someNotifications(n),
		Jobs:          &operations.Jobs{Runner: runner, Recorder: n.store.Audit}, Reports: &operations.Reports{Builder: &reports.Builder{
			Store: n.store.Reports, Counts: n.store.Offences, Detection: n.detection, Proposals: n.detection.Proposals, View: n.catalog, Now: n.clock.Now,
		}},
		Origins: operations.Origins{Database: someOrigins(t)},
	}.OnStore(n.store, n.clock.Now)
	deps := adminui.Deps{
		UseCases: use, Logins: logins, TwoFactor: &identities.TwoFactor{Store: n.store.Factors, Throttle: throttle, Failed: n.failed, Now: n.clock.Now},
		OwnPassword: &identities.OwnPassword{Store: n.store.Identities, Throttle: throttle, Failed: n.failed, Now: n.clock.Now}, Catalog: n.catalog, Events: n.events,
		Settings: func() []administration.Setting { return someSettings }, Node: "a", Build: buildinfo.Info{Version: "v0.4.1", Commit: "3f2a9c41d07b", Date: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC), Go: "go1.26"}, CheckURL: n.checks, AdminURL: n.url, DataDir: "./data",
		Logger: logger, Now: n.clock.Now,
	}
	for _, f := range change {
		f(&deps)
	}
	ui, err := adminui.New(deps)
	must(t, err)
	n.routes = ui.Routes()
	rest := api.New(api.Deps{Gate: n.gate, Catalog: n.catalog, UseCases: deps.UseCases, Events: n.events, Now: n.clock.Now})
	server := httpserver.New(httpserver.Options{
		Credentials: n.catalog, Tokens: n.store.Identities, Throttle: throttle, Sessions: ui.Sessions(), MissingPage: ui.MissingPage, Logger: logger, Now: n.clock.Now,
		StoreLiveness: deps.StoreLiveness,
	}, rest.Routes(), ui.Routes())
	go server.AdminApp().Listener(httpserver.FramingListener(adminAt, nil))
	go server.CheckApp().Listener(httpserver.FramingListener(checksAt, nil))
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(n.logs.String())
		}
		n.events.Close()
		server.AdminApp().ShutdownWithTimeout(time.Second)
		server.CheckApp().ShutdownWithTimeout(time.Second)
		log.Close()
		n.store.Close()
	})
	for name, role := range map[string]identity.Role{"maria": identity.Administrator, "olu": identity.Operator, "vic": identity.Viewer} {
		_, err := n.store.Identities.AddUser(ctx, audit.SystemActor("test"), identity.User{Name: name, Role: role, PasswordHash: hashed()})
		must(t, err)
	}
	return n
}

// hashed returns the password's hash at the least costs: hundreds of tests log in.
func hashed() string {
	salt := []byte("the salt of tests")
	sum := base64.RawStdEncoding.EncodeToString(argon2.IDKey([]byte(password), salt, 1, 8, 1, 32))
	return fmt.Sprintf("$argon2id$v=19$m=8,t=1,p=1$%s$%s", base64.RawStdEncoding.EncodeToString(salt), sum)
}

func someJobs() []jobs.Job {
	return []jobs.Job{
		{Name: "daily-report", Help: "Writes the report of the day before.", Schedule: "15 3 * * *",
			Run: func(context.Context, time.Time) (string, error) { return "wrote 1 report", nil }},
		{Name: "archive-blocks", Help: "Puts away blocks that ended long ago.", Schedule: "@hourly",
			Run: func(context.Context, time.Time) (string, error) { return "archived 12 blocks", nil }},
		{Name: jobs.BackUpJob, Help: "Writes a backup.", Schedule: "30 2 * * *",
			Run: func(context.Context, time.Time) (string, error) { return "wrote 1 backup", nil }},
	}
}

var someSettings = []administration.Setting{
	{Subject: "Listeners and TLS", Name: "listen", Variable: "STINT_LISTEN", Value: "127.0.0.1:8080", Help: "where checks are answered"},
	{Subject: "Logins", Name: "admin-token", Variable: "STINT_ADMIN_TOKEN", Value: "set, not shown", Help: "the bootstrap admin token"},
	{Subject: "Storage", Name: "redis-url", Variable: "STINT_REDIS_URL", Help: "Redis 7+ or Valkey for the logs, with --database-url: redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://"},
	{Subject: "Gateways and proxies", Name: "trusted-proxies", Variable: "STINT_TRUSTED_PROXIES", Value: "10.0.0.0/8, 192.168.0.0/16, 2001:db8:1::/48", Help: "networks of proxies whose X-Forwarded-For names the client, and whose headers describe its request"},
}

func listener(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	return l
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// visitor is one browser without JavaScript.
type visitor struct {
	t    testing.TB
	node *node
	http *http.Client
	csrf string
}

func (n *node) visitor(t testing.TB) *visitor {
	jar, err := cookiejar.New(nil)
	must(t, err)
	return &visitor{t: t, node: n, http: &http.Client{
		Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// as returns a visitor who is logged in.
func (n *node) as(t testing.TB, name string) *visitor {
	t.Helper()
	v := n.visitor(t)
	got := v.post("/login", url.Values{"name": {name}, "password": {password}})
	got.is(http.StatusSeeOther)
	v.get("/settings").is(http.StatusOK)
	return v
}

// answer is the response to a visitor's request.
type answer struct {
	t      testing.TB
	status int
	header http.Header
	body   string
}

func (a *answer) is(status int) *answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("got the status %d, want %d: %s", a.status, status, a.shown())
	}
	return a
}

func (a *answer) holds(text string) *answer {
	a.t.Helper()
	if !strings.Contains(a.body, text) && !strings.Contains(oneLine(a.body), text) {
		a.t.Errorf("the page does not contain %q: %s", text, a.shown())
	}
	return a
}

func (a *answer) lacks(text string) *answer {
	a.t.Helper()
	if strings.Contains(a.body, text) || strings.Contains(oneLine(a.body), text) {
		a.t.Errorf("the page contains %q: %s", text, a.shown())
	}
	return a
}

// oneLine writes every run of white space as one space, as browsers do.
func oneLine(html string) string { return strings.Join(strings.Fields(html), " ") }

// shown returns the page without its frame, for messages.
func (a *answer) shown() string {
	text := a.body
	if _, page, framed := strings.Cut(text, "<main"); framed {
		text = page
	}
	const maxLength = 4000
	return text[:min(maxLength, len(text))]
}

var csrfField = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

func (v *visitor) get(path string) *answer {
	v.t.Helper()
	return v.do(http.MethodGet, path, nil, nil)
}

// post sends a form with the CSRF token of the last page.
func (v *visitor) post(path string, form url.Values) *answer {
	v.t.Helper()
	if form == nil {
		form = url.Values{}
	}
	if v.csrf != "" && !form.Has("csrf") {
		form.Set("csrf", v.csrf)
	}
	return v.do(http.MethodPost, path, form, nil)
}

func (v *visitor) do(method, path string, form url.Values, header http.Header) *answer {
	v.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, v.node.url+path, strings.NewReader(form.Encode()))
	must(v.t, err)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for name, values := range header {
		r.Header[name] = values
	}
	return v.send(r)
}

func (v *visitor) send(r *http.Request) *answer {
	v.t.Helper()
	response, err := v.http.Do(r)
	must(v.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(v.t, err)
	a := &answer{v.t, response.StatusCode, response.Header, string(body)}
	if m := csrfField.FindStringSubmatch(a.body); m != nil {
		v.csrf = m[1]
	}
	return a
}

// seenBots are the bots that came.
type seenBots struct{ breakdown.Table }

// Breakdowns implements operations.BotsStore.
func (s *seenBots) Breakdowns(_ context.Context, _, from, to time.Time, _ time.Duration, begin func(offences.TrafficSeries), do func(time.Time, *breakdown.Table) error) error {
	begin(offences.TrafficSeries{Span: offences.Span{From: from, To: to}})
	return do(from, &s.Table)
}

// someBots returns the bots page's use case with requests of a few bots.
func someBots(t testing.TB, n *node) *operations.Bots {
	var seen seenBots
	bot, _ := breakdown.Find("bot")
	how, _ := breakdown.Find("verified")
	for name, verified := range map[string]string{"openai/gptbot": conditions.Claimed, "google/googlebot": conditions.ByDNS, "bing/bingbot": conditions.Spoofed} {
		var values breakdown.Values
		values[bot], values[how] = name, verified
		seen.Row(values).Add(breakdown.Counts{Allowed: 30, Limited: 10})
	}
	lists := bots.NewLists("", func(context.Context, string, string) (io.ReadCloser, string, error) {
		return io.NopCloser(strings.NewReader(`{"prefixes":[{"ipv4Prefix":"20.0.0.0/24"}],"keys":[]}`)), "", nil
	}, n.clock.Now)
	_, err := lists.Pull(t.Context())
	must(t, err)
	return &operations.Bots{Store: &seen, Directory: &bots.Directory{Lists: lists}, View: n.catalog, Now: n.clock.Now}
}
