package httpserver

import (
	"context"
	"maps"
	"net/http"
	"net/netip"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/tracing"
	"github.com/stint-dev/stint/internal/wire"
)

// Call is one request while a handler runs. It must not be kept after the handler returns.
type Call struct {
	*fiber.Ctx
	// Principal is the caller, nil on a public route.
	Principal *Principal
	// Address is the client's address, taken from forwarded headers if a trusted proxy sent
	// them.
	Address netip.Addr
	// RequestID is the id by which the log names the request.
	RequestID string
	// Outcome is the decision of the route's Door, as gate.Outcome. It is "" if the route
	// decided nothing, or several requests. Key and Policy belong to that decision; each is ""
	// if there is none or more than one.
	Outcome, Key, Policy string

	// Parent is the caller's span if the caller traces the request, else zero.
	Parent tracing.Parent
	// Span is the span of the request, nil if the request is not traced.
	Span *tracing.Span

	server *Server
	need   identity.Access // of the route
	users  int64           // UsersRevision read before the principal was looked up
	ctx    context.Context // nil until Context is called
	cancel context.CancelFunc
	traced context.Context // context of Span, nil if the request is not traced
	header [64]byte        // working memory for the request id

	compressible bool // the listener allows compressed responses
}

// Principal is who makes a request and what they may do.
type Principal struct {
	Kind    audit.ActorKind
	ID      string
	Name    string
	Role    identity.Role // of a user
	Access  []identity.Access
	Expires time.Time // of a token; zero: never
	// Proof is the hash of the secret of the token or of the session.
	Proof [32]byte
	// MustSetUpTOTP means that the user must set up two-factor authentication before anything
	// else, and that Access is limited to that.
	MustSetUpTOTP bool
	LoggedIn      time.Time // when the session began; zero for a token
}

// May reports whether p has the access that an operation needs.
func (p *Principal) May(need identity.Access) bool {
	for _, a := range p.Access {
		if a.Grants(need) {
			return true
		}
	}
	return need == identity.Public
}

// Actor returns the actor that the audit log records for changes made by this call.
func (c *Call) Actor() audit.Actor {
	actor := audit.Actor{Address: c.Address.String()}
	if c.Principal != nil {
		actor.Kind, actor.ID, actor.Name = c.Principal.Kind, c.Principal.ID, c.Principal.Name
	}
	return actor
}

// Caller returns the name of the caller's token, or of the user, "" on a public route.
func (c *Call) Caller() string {
	if c.Principal == nil {
		return ""
	}
	return c.Principal.Name
}

// Access returns the caller's access, nil on a public route.
func (c *Call) Access() []identity.Access {
	if c.Principal == nil {
		return nil
	}
	return c.Principal.Access
}

// HandlerTimeout bounds the database calls of one admin request, so that a database that hangs
// leads to an error before operators or proxies give up.
const HandlerTimeout = 10 * time.Second

// Context returns the context that the handler passes to stores and services. Its deadline is
// HandlerTimeout after the first call, so that a slow upload does not use up the time of the
// stores. It ends earlier while the database answers nothing; see Options.StoreLiveness. It is
// cancelled when the handler has returned. Do not use c.Ctx.Context, the context of fasthttp:
// fasthttp reuses it for the next request while a driver may still watch it.
func (c *Call) Context() context.Context {
	if c.ctx == nil {
		c.ctx, c.cancel = storeContext(c.server.o.StoreLiveness, c.DecisionContext(), onlyReads(c))
	}
	return c.ctx
}

// onlyReads reports whether a request changes nothing, according to its method.
func onlyReads(c *Call) bool { return c.Method() == http.MethodGet || c.Method() == http.MethodHead }

// DecisionContext returns the context for calls of the gate. It is never cancelled: the gate
// sets its own deadline, and a caller who has disconnected is still charged, since the response
// may already have been sent.
func (c *Call) DecisionContext() context.Context {
	if c.traced != nil {
		return c.traced
	}
	return context.Background()
}

// TraceID returns the id of the trace that the request belongs to, "" for none. The caller may
// have chosen the id.
func (c *Call) TraceID() string {
	if c.Span != nil {
		return c.Span.Parent().TraceID()
	}
	return c.Parent.TraceID()
}

// MetaWithTrace returns the metadata of an offence, with the trace id added if the request has
// one. It does not change meta.
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
