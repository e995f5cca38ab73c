package httpserver

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/tracing"
)

// Listener is one of the server's listeners.
type Listener int

// The listeners.
const (
	Admin  Listener = iota // for operators
	Checks                 // for clients
)

// Handler answers one request. An error becomes a problem response.
type Handler func(c *Call) error

// Route is one row of the table of all routes. Only this table defines who may do what.
type Route struct {
	Listener Listener
	Method   string
	Path     string // in fiber's syntax, for example /v1/blocks/:id
	// Access is the minimum that a role or scope must give.
	Access  identity.Access
	Handler Handler
	// Fast answers the common requests of the route, nil for none; see FastHandler.
	Fast FastHandler
	// Failed answers an error with something other than a problem, for pages; nil for none.
	Failed func(c *Call, err error) error
	// Streams means that the handler reads the body as it arrives. Other handlers get the
	// complete body.
	Streams bool
	// TokenHeader is the header that holds the token, "" for Authorization with the scheme
	// Bearer. If it is set, sessions are not looked up: on such a route Authorization and
	// cookies are those of a client behind a proxy.
	TokenHeader TokenHeader
	// AnyHost means that the route accepts any host name, for proxies that forward the name
	// that their client used.
	AnyHost bool
	// Door names the front end of a route that asks the gate, for metrics and logs: check,
	// batch, report, reservation, forward or envoy. It is "" for any other route.
	Door string
}

// AnyMethod is the method of a route that accepts every method; see
// Call.OriginalMethod.
const AnyMethod = "*"

// hostsOf returns a function for the host names that a route accepts at present, nil for any.
// Probes accept any name: they reveal nothing, and load balancers use their own names.
func (s *Server) hostsOf(r *Route) func() *AllowedHosts {
	if r.Path == "/livez" || r.Path == "/readyz" || r.AnyHost {
		return nil
	}
	if r.Listener == Checks {
		return s.o.CheckHosts
	}
	return s.o.AdminHosts
}

// handle wraps the handler of a route: it authorizes the request, reads its body
// unless the route streams, and answers errors and panics.
func (s *Server) handle(r *Route) fiber.Handler {
	hosts := s.hostsOf(r)
	return func(fc *fiber.Ctx) (err error) {
		c := s.calls.Get().(*Call)
		defer s.release(c)
		c.Ctx, c.server = fc, s
		defer func() {
			s.logAccess(c, r)
			s.endTrace(c, r)
		}()
		defer func() {
			if cause := recover(); cause != nil {
				err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
			}
			if err != nil {
				err = s.failed(c, r, err)
			}
		}()
		c.Address = s.o.Clients().Of(fc.Context())
		c.RequestID = takeRequestID(fc)
		if s.o.Tracer != nil || len(fc.Request().Header.PeekCanonical(traceparentHeader)) > 0 {
			s.trace(c, r)
		}
		c.SetHeader(requestIDHeader, append(c.header[:0], c.RequestID...))
		c.SetHeader(cacheControlHeader, noStore)
		c.SetHeader(contentTypeOptionsHeader, noSniff)
		err = s.authorize(c, r)
		if hosts != nil && !c.hasToken() && !hosts().Allows(fc.Context()) {
			return errHost(fc)
		}
		if err != nil {
			return err
		}
		if r.Listener == Admin {
			if err := c.takeBody(r); err != nil {
				return err
			}
		}
		c.compressible = r.Listener == Admin
		switch err = r.Handler(c); {
		case err == nil:
			c.compress()
		case accessEnded(fc.Context()): // that is why the handler could not read the body
			err = ErrAccessEnded
		}
		return err
	}
}

// hasToken reports whether the request has a valid token. A page of another site cannot send
// one, whatever host name it uses for this node.
func (c *Call) hasToken() bool { return c.Principal != nil && c.Principal.Kind == audit.Token }

func errHost(c *fiber.Ctx) error {
	return fiber.NewError(http.StatusMisdirectedRequest, "This node does not answer under the host name "+
		escape.Log(string(c.Request().Host()))+". Use its address, or start it with --allowed-hosts and that name.")
}

// failed answers an error immediately, so that the access log has the status of the response.
func (s *Server) failed(c *Call, r *Route, err error) error {
	var raised *fiber.Error // an error of HTTP itself, for which there is no page
	if r.Failed != nil && !errors.As(err, &raised) {
		if err = r.Failed(c, err); err == nil {
			return nil
		}
	}
	return s.fail(c.Ctx, err)
}

func (s *Server) release(c *Call) {
	if c.cancel != nil {
		c.cancel()
	}
	c.Ctx, c.Principal, c.RequestID, c.Outcome, c.ctx, c.cancel = nil, nil, "", "", nil, nil
	c.Key, c.Policy, c.compressible = "", "", false
	c.Parent, c.Span, c.traced = tracing.Parent{}, nil, nil
	s.calls.Put(c)
}
