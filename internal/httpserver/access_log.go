package httpserver

import (
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/escape"
)

// requestID returns the id that the answer already has, or else takes one.
func requestID(c *fiber.Ctx) string {
	if set := c.Response().Header.PeekCanonical(requestIDHeader); len(set) > 0 {
		return string(set)
	}
	return takeRequestID(c)
}

// takeRequestID returns the id of a request in the log: the caller's own where it is
// short and plain, so that it can be followed through several services.
func takeRequestID(c *fiber.Ctx) string {
	if given := c.Request().Header.PeekCanonical(requestIDHeader); isPlainID(given) {
		return string(given)
	}
	return newRequestID()
}

// newRequestID returns 26 random letters and digits. Nothing is guarded by
// them, so they need not come from the system's own generator, which takes
// longer than the rest of a request's log.
func newRequestID() string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	var id [26]byte
	for from := 0; from < len(id); from += 13 {
		for i, bits := from, rand.Uint64(); i < from+13; i, bits = i+1, bits>>5 {
			id[i] = alphabet[bits&31]
		}
	}
	return string(id[:])
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

// logFailure logs what is not the caller's fault, with its cause. Everything
// that a caller chose is quoted, so that no line can be forged.
func (s *Server) logFailure(c *fiber.Ctx, id string, err error) {
	attributes := []slog.Attr{
		slog.String("request_id", id),
		slog.String("method", escape.Log(c.Method())),
		slog.String("path", s.loggedPath(c.Path())),
		slog.String("error", escape.Log(err.Error())),
	}
	if trace := traceID(c); trace != "" {
		attributes = append(attributes, slog.String(traceKey, trace))
	}
	s.o.Logger.LogAttrs(c.UserContext(), slog.LevelError, "request failed", attributes...)
}

// logAccess measures a request, since the HTTP server read it whole, and logs it: one of
// the admin listener, a sample of what doors are asked, and the others of the check listener at
// level debug. Query strings are left out: they hold keys.
func (s *Server) logAccess(c *Call, r *Route) {
	took := time.Since(c.Ctx.Context().Time())
	if s.o.Observe != nil {
		s.o.Observe(c, r, took)
	}
	level := slog.LevelDebug
	if r.Listener == Admin && r.Path != "/livez" && r.Path != "/readyz" || r.Door != "" && s.isSampled() {
		level = slog.LevelInfo
	}
	ctx := c.UserContext()
	if !s.o.Logger.Enabled(ctx, level) {
		return
	}
	who := ""
	if c.Principal != nil {
		who = string(c.Principal.Kind) + ":" + c.Principal.Name
	}
	attributes := make([]slog.Attr, 0, 12)
	attributes = append(attributes,
		slog.String("request_id", c.RequestID),
		slog.String("method", r.Method),
		slog.String("path", s.loggedPath(c.Path())),
		slog.Int("status", c.Response().StatusCode()),
		slog.Duration("took", took),
		slog.String("address", c.Address.String()),
		slog.String("who", escape.Log(who)))
	if r.Door != "" {
		attributes = append(attributes, slog.String("door", r.Door), slog.String("outcome", c.Outcome),
			slog.String("key", escape.Log(c.Key)), slog.String("policy", c.Policy))
	}
	if trace := c.TraceID(); trace != "" {
		attributes = append(attributes, slog.String(traceKey, trace))
	}
	s.o.Logger.LogAttrs(ctx, level, "request", attributes...)
}

// isSampled reports whether a request of a door is in the access log.
func (s *Server) isSampled() bool { return s.o.CheckLogRatio > 0 && rand.Float64() < s.o.CheckLogRatio }

// loggedPath is a path as the log shows it.
func (s *Server) loggedPath(path string) string {
	for _, prefix := range s.o.SecretPaths {
		if strings.HasPrefix(path, prefix) {
			return prefix + "..."
		}
	}
	return escape.Log(path)
}
