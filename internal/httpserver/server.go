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
	// Loaded reports whether the copy has been read at all.
	Loaded() bool
	// Unconfirmed reports whether the copy comes from a file, because the
	// database has not answered since this node started.
	Unconfirmed() (since time.Time, unconfirmed bool)
	TokenByHash(hash [32]byte) (*identity.Token, bool)
	// UsersRevision changes whenever users or sessions change.
	UsersRevision() int64
}

// Sessions finds out who is logged in to the pages.
type Sessions interface {
	// SessionOf returns the principal of the request's session, nil for none. It
	// must refuse a request that changes something without proof that it comes
	// from the pages.
	SessionOf(c *fiber.Ctx) (*Principal, error)
	// SessionHolds reports whether the session that gave a principal still
	// gives the same access. It does not prolong the session.
	SessionHolds(ctx context.Context, p *Principal) (bool, error)
}

// TokenStore records when tokens were used.
type TokenStore interface {
	TouchTokens(ctx context.Context, used map[string]time.Time) error
}

// Options are the parts of a Server. The zero value of the others is valid.
type Options struct {
	Credentials Credentials // required
	Throttle    *Throttle   // required where bad tokens may come
	Tokens      TokenStore  // required by Run
	// Sessions is asked about a request without a bearer token; nil for no
	// sessions.
	Sessions Sessions
	// Observe is called for every answer of a route; nil for none. It must not keep a.
	Observe func(a *Answered)
	// CountToken is called for every wrong token with the outcome; nil for none.
	CountToken func(identity.LoginOutcome)
	// Tracer makes the spans of requests; nil for none.
	Tracer *tracing.Tracer
	// CheckLogRatio is how many of the requests of doors are in the access log, 0 to 1.
	CheckLogRatio float64
	// CheckAuth requires a token with the scope check on the check listener.
	CheckAuth bool
	// Clients returns what finds out where requests come from; nil believes no header.
	Clients func() ClientAddresses
	// CheckHosts and AdminHosts return the host names that each listener answers
	// to where no token is sent; nil for any.
	CheckHosts, AdminHosts func() *AllowedHosts
	// MissingPage answers a browser that asks the admin listener for a path that no route
	// has; nil answers with a problem.
	MissingPage func(*fiber.Ctx) error
	// SecretPaths are prefixes of paths whose rest is a secret, which logs leave
	// out.
	SecretPaths []string
	Logger      *slog.Logger     // nil discards
	Now         func() time.Time // nil means time.Now
}

// Server holds the application of each listener: it finds out who asks, checks
// their access, and converts errors to answers. See New.
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
}

// New builds both applications over a table of routes; they do not listen yet.
// It panics where two routes have the same listener, method and path.
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
	s := &Server{o: o, isRealTime: isRealTime, tokens: newTokenUse(), routes: slices.Concat(routes...)}
	s.calls.New = func() any { return new(Call) }
	s.check = s.newApp("checks", false)
	s.admin = s.newApp("admin", true)
	s.register()
	return s
}

// CheckApp answers checks.
func (s *Server) CheckApp() *fiber.App { return s.check }

// AdminApp answers operators.
func (s *Server) AdminApp() *fiber.App { return s.admin }

// Routes returns the whole table.
func (s *Server) Routes() []Route { return s.routes }

// Run records in the database every minute which tokens were used, until ctx
// ends, and once more then.
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
