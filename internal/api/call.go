package api

import (
	"context"
	"net/netip"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/identity"
)

// Call is one request on its way through a handler. It must not be kept after.
type Call struct {
	*fiber.Ctx
	// Principal is who asks, nil on a public route.
	Principal *Principal
	// Address is where the request came from, forwarded headers of trusted
	// proxies considered.
	Address netip.Addr
	// RequestID finds the request in the log.
	RequestID string

	server *Server
	need   identity.Access // of the route
	users  int64           // the catalog's UsersRevision before the principal was found
	checks checkScratch
	header [256]byte // working memory for one header's value
}

// checkScratch is the working memory of the check handlers.
type checkScratch struct {
	inputs    []checkInput
	problems  []error
	checks    []gate.Check
	decisions []gate.Decision
	errs      []error
	buffer    []byte
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

// storeTimeout bounds what one admin request may ask of the database: a
// database that hangs is an error before operators or proxies give up.
const storeTimeout = 10 * time.Second

// StoreContext returns a context for the stores. It is not fasthttp's own, which is
// used again for the next request while a driver may still watch it.
func (c *Call) StoreContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), storeTimeout)
}
