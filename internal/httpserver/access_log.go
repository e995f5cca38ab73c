package httpserver

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/escape"
)

// requestID returns the id that the response already has, or else assigns one.
func requestID(c *fiber.Ctx) string {
	if set := c.Response().Header.PeekCanonical(requestIDHeader); len(set) > 0 {
		return string(set)
	}
	return takeRequestID(c)
}

// takeRequestID returns the id of a request for the log. It is the caller's own if that is
// short and plain, so that a request can be followed through several services.
func takeRequestID(c *fiber.Ctx) string {
	if given := c.Request().Header.PeekCanonical(requestIDHeader); isPlainID(given) {
		return string(given)
	}
	return newRequestID()
}

// newRequestID returns 26 random letters and digits. They protect nothing, so they need not
// come from the system's random generator, which takes longer than the rest of logging a
// request.
func newRequestID() string {
	var id [requestIDLength]byte
	return string(appendRequestID(id[:0]))
}

const requestIDLength = 26

// appendRequestID appends a request id as newRequestID returns it.
func appendRequestID(b []byte) []byte {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	for range 2 {
		for i, bits := 0, rand.Uint64(); i < requestIDLength/2; i, bits = i+1, bits>>5 {
			b = append(b, alphabet[bits&31])
		}
	}
	return b
}

func isPlainID(text []byte) bool {
	if len(text) < 8 || len(text) > 64 {
		return false
	}
	for i := range len(text) {
		c := text[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// logFailure logs a request that failed, with its cause; see Failures. Everything that a caller
// chose is quoted, so that nobody can forge a line.
func (s *Server) logFailure(c *fiber.Ctx, id string, status int, err error) {
	attributes := []slog.Attr{
		slog.String("request_id", id),
		slog.String("method", escape.Log(c.Method())),
		slog.String("path", s.loggedPath(c.Path())),
		slog.String("error", escape.Log(err.Error())),
	}
	if trace := traceID(c); trace != "" {
		attributes = append(attributes, slog.String(TraceKey, trace))
	}
	s.failures.Log(c.UserContext(), "request failed", status, err, attributes...)
}

// Answered is what is measured for a request to a route.
type Answered struct {
	Route     *Route
	Status    int
	Outcome   string    // see Call.Outcome
	Read      time.Time // when the HTTP server had read the whole request
	Took      time.Duration
	RequestID []byte // copy it before keeping it
	TraceID   string // "" if this node does not trace the request
}

// logAccess measures the time since the HTTP server had read the request, and logs the request.
// It logs every request of the admin listener, a sample of the requests of doors, and the other
// requests of the check listener at level debug. Query strings are left out: they contain keys.
func (s *Server) logAccess(c *Call, r *Route) {
	read := c.Ctx.Context().Time()
	took := time.Since(read)
	if s.o.Observe != nil {
		s.o.Observe(&Answered{Route: r, Status: c.Response().StatusCode(), Outcome: c.Outcome, Read: read, Took: took,
			RequestID: append(c.header[:0], c.RequestID...), TraceID: c.Span.Parent().TraceID()})
	}
	level := slog.LevelDebug
	if r.Listener == Admin && r.Path != "/livez" && r.Path != "/readyz" || r.Door != "" && s.o.isSampled() {
		level = slog.LevelInfo
	}
	ctx := c.UserContext()
	if !s.o.Logger.Enabled(ctx, level) {
		return
	}
	line := accessLine{
		route: r, id: c.RequestID, path: c.Path(), status: c.Response().StatusCode(), took: took, address: c.Address,
		outcome: c.Outcome, key: c.Key, policy: c.Policy, trace: c.TraceID(),
	}
	if c.Principal != nil {
		line.who = string(c.Principal.Kind) + ":" + c.Principal.Name
	}
	line.write(ctx, s, level)
}

// accessLine is one line of the access log.
type accessLine struct {
	route                *Route
	id, path             string
	status               int
	took                 time.Duration
	address              netip.Addr
	who                  string
	outcome, key, policy string // only for a door
	trace                string // "" for none
}

func (l *accessLine) write(ctx context.Context, s *Server, level slog.Level) {
	attributes := make([]slog.Attr, 0, 12)
	attributes = append(attributes,
		slog.String("request_id", l.id),
		slog.String("method", l.route.Method),
		slog.String("path", s.loggedPath(l.path)),
		slog.Int("status", l.status),
		slog.Duration("took", l.took),
		slog.String("address", l.address.String()),
		slog.String("who", escape.Log(l.who)))
	if l.route.Door != "" {
		attributes = append(attributes, slog.String("door", l.route.Door), slog.String("outcome", l.outcome),
			slog.String("key", escape.Log(l.key)), slog.String("policy", l.policy))
	}
	if l.trace != "" {
		attributes = append(attributes, slog.String(TraceKey, l.trace))
	}
	s.o.Logger.LogAttrs(ctx, level, "request", attributes...)
}

// isSampled decides at random whether the access log includes a request of a door.
func (o *Options) isSampled() bool { return o.CheckLogRatio > 0 && rand.Float64() < o.CheckLogRatio }

// loggedPath returns a path as the log shows it, without its secret.
func (s *Server) loggedPath(path string) string {
	for _, prefix := range s.o.SecretPaths {
		if strings.HasPrefix(path, prefix) {
			return prefix + "..."
		}
	}
	return escape.Log(path)
}
