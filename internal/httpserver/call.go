package httpserver

import (
	"context"
	"maps"
	"net/netip"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/tracing"
	"github.com/stint-dev/stint/internal/wire"
)

// Call is one request on its way through a handler. It must not be kept after.
type Call struct {
	*fiber.Ctx
	// Principal is the caller, nil on a public route.
	Principal *Principal
	// Address is where the request came from, forwarded headers of trusted
	// proxies considered.
	Address netip.Addr
	// RequestID finds the request in the log.
	RequestID string
	// Outcome is what the route's Door decided, as gate.Outcome; "" where it decided
	// nothing, or several requests. Key and Policy are those of the decision, "" where
	// it has none or several.
	Outcome, Key, Policy string

	// Parent is the span of a caller who traces the request, zero without one.
	Parent tracing.Parent
	// Span is that of the request, nil where it is not traced.
	Span *tracing.Span

	server *Server
	need   identity.Access // of the route
	users  int64           // UsersRevision before the principal was found
	ctx    context.Context // nil until Context is called
	cancel context.CancelFunc
	traced context.Context // of Span, nil without
	header [64]byte        // working memory for the request id

	compressible bool // the answers of the listener may be compressed
}

// Principal is who makes a request and what they may do.
type Principal struct {
	Kind    audit.ActorKind
	ID      string
	Name    string
	Role    identity.Role // of a user
	Access  []identity.Access
	Expires time.Time // of a token; zero: never
	// Proof is the hash of the token's secret or of the session's.
	Proof [32]byte
	// MustSetUpTOTP says that Access is that of a user who must set up two-factor
	// authentication before anything else.
	MustSetUpTOTP bool
	LoggedIn      time.Time // when the session began; zero of a token
}

// May reports whether p may do what needs that access.
func (p *Principal) May(need identity.Access) bool {
	for _, a := range p.Access {
		if a.Grants(need) {
			return true
		}
	}
	return need == identity.Public
}

// Actor returns who the audit names for what this call changes.
func (c *Call) Actor() audit.Actor {
	actor := audit.Actor{Address: c.Address.String()}
	if c.Principal != nil {
		actor.Kind, actor.ID, actor.Name = c.Principal.Kind, c.Principal.ID, c.Principal.Name
	}
	return actor
}

// Access returns what the caller may do, nil on a public route.
func (c *Call) Access() []identity.Access {
	if c.Principal == nil {
		return nil
	}
	return c.Principal.Access
}

// HandlerTimeout bounds what one admin request may ask of the stores: a database
// that hangs is an error before operators or proxies give up.
const HandlerTimeout = 10 * time.Second

// Context returns the context that the handler passes to stores and services. Its
// deadline is HandlerTimeout after the first call, so that a slow upload leaves the
// stores their time; it is cancelled when the handler has returned. It is not the
// context of fasthttp, which is reused for the next request while a driver may
// still watch it, and which c.Ctx.Context returns.
func (c *Call) Context() context.Context {
	if c.ctx == nil {
		c.ctx, c.cancel = context.WithTimeout(c.DecisionContext(), HandlerTimeout)
	}
	return c.ctx
}

// DecisionContext returns the context of what is asked of the gate. It has no end: the
// gate has a deadline of its own, and a caller who has gone is charged all the same, since
// the answer may be on its way.
func (c *Call) DecisionContext() context.Context {
	if c.traced != nil {
		return c.traced
	}
	return context.Background()
}

// TraceID returns the id of the trace that the request belongs to, "" for none. Its caller
// may have chosen it.
func (c *Call) TraceID() string {
	if c.Span != nil {
		return c.Span.Parent().TraceID()
	}
	return c.Parent.TraceID()
}

// MetaWithTrace returns what is shown with an offence, and with it the id of the trace
// where the request has one. meta is not changed.
func (c *Call) MetaWithTrace(meta map[string]string) map[string]string {
	if c.Span == nil && c.Parent.IsZero() {
		return meta
	}
	if _, set := meta[TraceKey]; set || len(meta) >= wire.MaxMeta {
		return meta
	}
	more := make(map[string]string, len(meta)+1)
	maps.Copy(more, meta)
	more[TraceKey] = c.TraceID()
	return more
}

// TraceKey names the id of a trace in logs, problems and offences.
const TraceKey = "trace_id"
