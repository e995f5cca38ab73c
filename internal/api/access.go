package api

import (
	"context"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
)

const (
	// accessInterval is how often a long answer looks whether its credential
	// still gives access. Together with the catalog's poll it stays within a
	// second of the revision that took the access away.
	accessInterval = 200 * time.Millisecond
	// sessionInterval is how often a session is read anew although nobody has
	// changed a user: it may have expired.
	sessionInterval = 5 * time.Second
	sessionTimeout  = 2 * time.Second
)

// errAccessEnded ends an answer whose credential gives no access any more.
var errAccessEnded = fault.New(fault.Unauthorized, "The credential of this request gives access no more.")

// accessWatch tells a long answer when its credential stops giving access. It is
// used by one goroutine. See Call.watchAccess.
type accessWatch struct {
	server    *Server
	principal *Principal // nil on a public route
	need      identity.Access

	looked  time.Time // at all
	asked   time.Time // the database, for a session
	users   int64     // the catalog's UsersRevision before it was asked
	refused bool
}

// watchAccess returns what tells when the access of a call ends.
func (c *Call) watchAccess() *accessWatch {
	now := time.Now()
	return &accessWatch{server: c.server, principal: c.Principal, need: c.need, looked: now, asked: now, users: c.users}
}

// ended reports whether the access has ended. It is cheap to call often.
func (a *accessWatch) ended() bool {
	if a.principal == nil || a.refused || time.Since(a.looked) < accessInterval {
		return a.refused
	}
	a.looked = time.Now()
	if a.principal.Kind == audit.Token {
		token, found := a.server.Catalog.TokenByHash(a.principal.Proof)
		a.refused = !found || !token.ActiveAt(a.server.Now()) || !token.Grants(a.need)
		return a.refused
	}
	users := a.server.Catalog.UsersRevision()
	if users == a.users && time.Since(a.asked) < sessionInterval {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), sessionTimeout)
	defer cancel()
	holds, err := a.server.Sessions.SessionHolds(ctx, a.principal)
	a.asked = time.Now()
	if err != nil {
		return false // the database is away: nothing can be revoked there either
	}
	a.users, a.refused = users, !holds
	return a.refused
}
