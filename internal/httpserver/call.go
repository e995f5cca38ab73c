package httpserver

import (
	"context"
	"net/netip"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/identity"
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
	// nothing, or several requests.
	Outcome string

	server *Server
	need   identity.Access // of the route
	users  int64           // UsersRevision before the principal was found
	ctx    context.Context // nil until Context is called
	cancel context.CancelFunc
	header [64]byte // working memory for the request id
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
		c.ctx, c.cancel = context.WithTimeout(context.Background(), HandlerTimeout)
	}
	return c.ctx
}
