// Package forwardauth answers the authorization requests of reverse proxies: nginx
// auth_request, Traefik ForwardAuth, Caddy forward_auth, HAProxy with Lua, and Envoy's HTTP
// ext_authz. The query string in the proxy's configuration, which the operator writes, says
// what is checked; see Query. The proxy's client cannot influence it.
package forwardauth

import (
	"bytes"
	"context"
	"hash/maphash"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/challenge"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/ratelimit"
	"github.com/stint-dev/stint/internal/rules"
)

// Path is the path for proxies; any suffix may follow it.
const Path = "/v1/forward"

// DefaultTokenHeader is the header of the check token. It is not Authorization, which belongs
// to the proxy's client.
const DefaultTokenHeader = "X-Stint-Token"

// View is the part of the node's copy that the door needs.
type View interface {
	Parser() keys.Parser
	Selector() *rules.Selector
}

// Options make a Door. Gate and View are required.
type Options struct {
	Gate *gate.Gate
	View View
	// TokenHeader is the header with the check token if checks need one; "" means
	// DefaultTokenHeader.
	TokenHeader httpserver.TokenHeader
	// JA4Header is the header in which trusted proxies send the JA4 fingerprint of their client's TLS, ""
	// for none.
	JA4Header string
	// Challenges makes and answers challenges, and writes the pages of refused browsers. nil refuses
	// challenged clients, and answers no request with a page.
	Challenges *challenge.Service
	Logger     *slog.Logger     // nil discards
	Now        func() time.Time // nil means time.Now
}

// Door is the front end for proxies. See New.
type Door struct {
	o       Options
	headers ratelimit.Headers
	queries queries
	warned  sync.Once // about a proxy that is not trusted
	// mistaken is the minute in which an invalid query was last logged.
	mistaken atomic.Int64
	scratch  sync.Pool // of *scratch
	pathless atomic.Int64
	// When a request was last read, and when one without a path was, in Unix seconds; 0 for never.
	asked, pathlessAt atomic.Int64
}

// scratch is the working memory of one request.
type scratch struct {
	checks  []gate.Check
	address keys.Key // of the client, zero if it is not known
	host    string   // of the client's request, "" if it is not known
	ja4     string   // Options.JA4Header
	// For one part of the request: the lines of its header, its values and their keys.
	lines  [][]byte
	values []string
	keys   []keys.Key
	// For the one check of a request on the fast path.
	decision [1]gate.Decision
	err      [1]error
}

func (d *Door) release(k *scratch) {
	clear(k.checks)
	clear(k.lines)
	clear(k.values)
	clear(k.keys)
	k.decision[0].Reset()
	k.checks, k.err = k.checks[:0], [1]error{}
	d.scratch.Put(k)
}

// New returns the door.
func New(o Options) *Door {
	if o.TokenHeader == "" {
		o.TokenHeader = DefaultTokenHeader
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	d := &Door{o: o}
	d.queries.seed = maphash.MakeSeed()
	d.scratch.New = func() any { return &scratch{ja4: o.JA4Header} }
	return d
}

// Routes returns the door's routes. They accept every method and every suffix of the path,
// since some proxies forward the client's.
func (d *Door) Routes() []openapi.Route {
	r := httpserver.Route{
		Listener: httpserver.Checks, Method: httpserver.AnyMethod, Path: Path, Access: identity.Check, Handler: d.handle,
		TokenHeader: d.o.TokenHeader, AnyHost: true, Door: "forward",
	}
	below := r
	below.Path = Path + "/*"
	r.Fast = d.handleFast
	routes := []openapi.Route{{Route: r, Operation: opForward}, {Route: below}}
	if d.o.Challenges != nil {
		page := httpserver.Route{Listener: httpserver.Checks, Method: http.MethodGet, Path: challenge.Path, Access: identity.Public, Handler: d.handleChallenge, AnyHost: true}
		pass, next := page, page
		pass.Path, next.Path = challenge.PathPass, challenge.PathContinue
		routes = append(routes, openapi.Route{Route: page, Operation: opChallenge}, openapi.Route{Route: pass, Operation: opPass}, openapi.Route{Route: next, Operation: opContinue})
	}
	return routes
}

func (d *Door) handle(c *httpserver.Call) error {
	k := d.scratch.Get().(*scratch)
	defer d.release(k)
	r := plainRequest{c}
	d.warnOfProxy(r)
	// A gateway that appends the client's path to ours also appends the client's query, which
	// then is not the operator's. The path is compared as it was sent, since the client may
	// have chosen one that leads back to ours.
	var raw []byte
	if r.Path() == Path {
		raw = c.Request().URI().QueryString()
	}
	query, err := d.queries.parse(raw)
	if d.isOfClient(k, r, raw) {
		return d.mistake(errOfClient)
	}
	if err != nil {
		return d.mistake(err)
	}
	if target, is := d.challengeTarget(k, r, &query); is {
		return d.visit(c, r, &query, target)
	}
	if err := query.appendChecks(k, r, d.o.View.Parser(), d.o.View.Selector()); err != nil {
		return err
	}
	d.findPass(k, r)
	stamp(&d.asked, d.o.Now())
	d.noticePathless(k)
	for i := range k.checks {
		k.checks[i].Meta = c.MetaWithTrace(k.checks[i].Meta)
	}
	if len(k.checks) == 1 {
		decision, err := d.o.Gate.Check(c.DecisionContext(), k.checks[0])
		if err != nil {
			return d.mistake(err)
		}
		return d.answer(c, &query, &decision)
	}
	combined, err := d.o.Gate.DecideAllOrApart(c.DecisionContext(), k.checks)
	if err != nil {
		return d.mistake(err)
	}
	all := ratelimit.Summary(&combined)
	return d.answer(c, &query, &all)
}

// handleFast is handle for requests on the fast path, with one key and a decision; see
// httpserver.FastHandler.
func (d *Door) handleFast(c *httpserver.FastCall) bool {
	k := d.scratch.Get().(*scratch)
	defer d.release(k)
	d.warnOfProxy(c)
	query, err := d.queries.parse(c.Query)
	if err != nil || len(query.By) > 1 || d.isOfClient(k, c, c.Query) {
		return false
	}
	if _, is := d.challengeTarget(k, c, &query); is {
		return false
	}
	if err := query.appendChecks(k, c, d.o.View.Parser(), d.o.View.Selector()); err != nil || len(k.checks) > 1 {
		return false
	}
	d.findPass(k, c)
	stamp(&d.asked, c.Now)
	d.noticePathless(k)
	d.o.Gate.DecideAt(context.Background(), c.Now, k.checks, k.decision[:], k.err[:])
	if k.err[0] != nil {
		return false
	}
	d.answerFast(c, &query, &k.decision[0])
	return true
}

var errOfClient = fault.New(fault.Invalid, "The query is that of the client's request: a gateway that passes it on lets clients choose what is checked. "+
	"Write a query of your own behind "+Path+" in its configuration, at least ?by=ip.")

// isOfClient reports whether a query comes from the client. Caddy forwards the client's query
// if the path in its configuration has none. A client's query may also equal the operator's, as
// that of a link to /page?by=ip does: a query that a trusted proxy has sent with another request
// is the operator's.
func (d *Door) isOfClient(k *scratch, r request, query []byte) bool {
	if len(query) == 0 {
		return false
	}
	k.lines = k.lines[:0]
	for _, header := range targetHeaders {
		k.lines = r.AppendLines(k.lines, header)
	}
	for _, line := range k.lines {
		if _, sent, _ := bytes.Cut(line, []byte{'?'}); bytes.Equal(sent, query) {
			return !d.queries.isOfOperator(query)
		}
	}
	if len(k.lines) > 0 && r.FromTrustedProxy() {
		d.queries.setOfOperator(query)
	}
	return false
}

// warnOfProxy logs once that a proxy sends client addresses but is not trusted: all its clients
// then count as one.
func (d *Door) warnOfProxy(r request) {
	if r.FromTrustedProxy() || r.Get(string(httpserver.XForwardedFor)) == "" {
		return
	}
	d.warned.Do(func() {
		d.o.Logger.Warn("a proxy that is not among --trusted-proxies asks "+Path+": all its clients are counted under its own address",
			"proxy", r.CountedAddress().String())
	})
}

// noticePathless counts a request whose gateway did not say which path its client asks for,
// although a policy applies by paths: it never applies then. It logs the first.
func (d *Door) noticePathless(k *scratch) {
	if k.checks[0].Request.Value(conditions.Path) != "" {
		return
	}
	policy := d.o.View.Selector().PathPolicy()
	if policy == "" {
		return
	}
	stamp(&d.pathlessAt, d.o.Now())
	if d.pathless.Add(1) == 1 {
		d.o.Logger.Warn("a gateway asks "+Path+" without the path of its client's request, so policies with paths never apply: "+
			"let it send "+forwardedURI+" or "+originalURL+", and be among --trusted-proxies", "policy", policy)
	}
}

// stamp stores the second of a time. It writes once in a second, since all requests share it.
func stamp(to *atomic.Int64, at time.Time) {
	if second := at.Unix(); to.Load() != second {
		to.Store(second)
	}
}

// stamped returns what stamp stored, zero for nothing.
func stamped(from *atomic.Int64) time.Time {
	second := from.Load()
	if second == 0 {
		return time.Time{}
	}
	return time.Unix(second, 0).UTC()
}

// LastAsked returns when a gateway last asked this node, zero for never.
func (d *Door) LastAsked() time.Time { return stamped(&d.asked) }

// LastPathless returns when a gateway last asked without the path of the client's request while a
// policy applied by paths, zero for never.
func (d *Door) LastPathless() time.Time { return stamped(&d.pathlessAt) }

// Pathless returns how many requests came without the path of the client's request while a policy
// applied by paths.
func (d *Door) Pathless() int64 { return d.pathless.Load() }

// mistake returns err. At most once a minute it logs an error that the operator caused in the
// gateway's configuration or by deleting a policy. Gateways regard the response as an outage,
// and those that allow requests in an outage then allow all.
func (d *Door) mistake(err error) error {
	minute := d.o.Now().Unix() / 60
	if last := d.mistaken.Load(); fault.Is(err, fault.Invalid) && last != minute && d.mistaken.CompareAndSwap(last, minute) {
		d.o.Logger.Warn("a gateway asks "+Path+" with a query that cannot be answered: it decides about its requests as if Stint were down", "error", err.Error())
	}
	return err
}

// statusOf is the actual status of an outcome.
var statusOf = map[gate.Outcome]int{
	gate.Allowed:     http.StatusOK,
	gate.Limited:     http.StatusTooManyRequests,
	gate.Challenged:  http.StatusTooManyRequests,
	gate.Blocked:     http.StatusForbidden,
	gate.Unavailable: http.StatusServiceUnavailable,
}
