package httpserver

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/tracing"
)

// Credentials is the node's copy of tokens and users.
type Credentials interface {
	// Loaded reports whether the copy has been read at least once.
	Loaded() bool
	// Unconfirmed reports whether the copy was read from a file because the database has been
	// unreachable since this node started.
	Unconfirmed() (since time.Time, unconfirmed bool)
	TokenByHash(hash [32]byte) (*identity.Token, bool)
	// UsersRevision changes whenever users or sessions change.
	UsersRevision() int64
}

// Sessions looks up who is logged in to the pages.
type Sessions interface {
	// SessionOf returns the principal of the request's session, nil for none. It must refuse a
	// request that changes something unless the request proves that it comes from the pages.
	// ctx bounds its reads.
	SessionOf(ctx context.Context, c *fiber.Ctx) (*Principal, error)
	// SessionHolds reports whether the session of a principal still gives the same access. It
	// does not prolong the session.
	SessionHolds(ctx context.Context, p *Principal) (bool, error)
}

// TokenStore records when tokens were used.
type TokenStore interface {
	TouchTokens(ctx context.Context, used map[string]time.Time) error
}

// Options configure a Server. The zero value of optional fields is valid.
type Options struct {
	Credentials Credentials // required
	Throttle    *Throttle   // required if the routes check tokens
	Tokens      TokenStore  // required by Run
	// Sessions looks up the session of a request without a bearer token; nil for no sessions.
	Sessions Sessions
	// Observe is called for every response of a route; nil for none. It must not keep a.
	Observe func(a *Answered)
	// CountToken is called with the outcome for every invalid token; nil for none.
	CountToken func(identity.LoginOutcome)
	// Tracer creates the spans of requests; nil for none.
	Tracer *tracing.Tracer
	// CheckLogRatio is the ratio of door requests in the access log, 0 to 1.
	CheckLogRatio float64
	// CheckAuth makes the check listener require a token with the scope check.
	CheckAuth bool
	// Clients returns the ClientAddresses for requests; nil trusts no header.
	Clients func() ClientAddresses
	// CheckHosts and AdminHosts return the host names that each listener accepts at present for
	// requests without a token; nil for any. They are called for each such request.
	CheckHosts, AdminHosts func() *AllowedHosts
	// StoreLiveness bounds how long requests wait for the database.
	StoreLiveness StoreLiveness
	// MissingPage answers a browser that requests a path without a route on the admin listener;
	// nil answers with a problem.
	MissingPage func(*fiber.Ctx) error
	// SecretPaths are prefixes of paths. What follows a prefix is a secret and is not logged.
	SecretPaths []string
	Logger      *slog.Logger     // nil discards
	Now         func() time.Time // nil means time.Now
}

// Server holds the application of each listener. It identifies callers, checks their access,
// and converts errors to responses. See New.
type Server struct {
	o Options
	// isRealTime is whether Options.Now is time.Now.
	isRealTime bool

	check  *fiber.App
	admin  *fiber.App
	routes []Route
	// anyMethod are the routes that accept every method.
	anyMethod []*Route
	calls     sync.Pool
	tokens    *tokenUse
	failures  *Failures
}

// New builds both applications from a table of routes; they do not listen yet. It panics if two
// routes have the same listener, method and path.
func New(o Options, routes ...[]Route) *Server {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	isRealTime := o.Now == nil
	if isRealTime {
		o.Now = time.Now
	}
	if o.Clients == nil {
		o.Clients = func() ClientAddresses { return ClientAddresses{} }
	}
	s := &Server{o: o, isRealTime: isRealTime, tokens: newTokenUse(), failures: &Failures{Logger: o.Logger, Now: o.Now}, routes: slices.Concat(routes...)}
	s.calls.New = func() any { return new(Call) }
	s.check = s.newApp("checks", false)
	s.admin = s.newApp("admin", true)
	s.register()
	return s
}

// CheckApp returns the application for checks.
func (s *Server) CheckApp() *fiber.App { return s.check }

// AdminApp returns the application for operators.
func (s *Server) AdminApp() *fiber.App { return s.admin }

// Routes returns the whole table.
func (s *Server) Routes() []Route { return s.routes }

// Run writes to the database every minute which tokens were used, and once more after ctx ends.
func (s *Server) Run(ctx context.Context) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.FlushTokenUse(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			s.FlushTokenUse(last)
			cancel()
			return
		}
	}
}

// register adds every route of the table to its application.
func (s *Server) register() {
	taken := map[string]bool{}
	for i := range s.routes {
		r := &s.routes[i]
		name := fmt.Sprint(r.Listener, r.Method, r.Path)
		if taken[name] {
			panic("two routes claim " + r.Method + " " + r.Path)
		}
		taken[name] = true
		app := s.admin
		if r.Listener == Checks {
			app = s.check
		}
		handler := s.handle(r)
		if r.Method == AnyMethod {
			s.anyMethod = append(s.anyMethod, r)
			app.Add(http.MethodGet, r.Path, handler)
			app.Add(http.MethodHead, r.Path, handler)
			continue
		}
		app.Add(r.Method, r.Path, handler)
		if r.Method == http.MethodGet {
			app.Add(http.MethodHead, r.Path, handler)
		}
	}
}
