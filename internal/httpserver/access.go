package httpserver

import (
	"context"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
)

const (
	// AccessInterval is how often a long response checks that its credential still gives
	// access. Together with the polling of the catalog, it ends access within one second after
	// the revision that revoked it.
	AccessInterval = 200 * time.Millisecond
	// sessionInterval is how often a session is read again even if no user has changed, since
	// the session may have expired.
	sessionInterval = 5 * time.Second
	sessionTimeout  = 2 * time.Second
)

// ErrAccessEnded ends a response whose credential no longer gives access.
var ErrAccessEnded = fault.New(fault.Unauthorized, "The credential of this request no longer gives access.")

// AccessWatch reports when the credential of a long response stops giving access. It must be
// used by one goroutine only. See Call.WatchAccess.
type AccessWatch struct {
	server    *Server
	principal *Principal // nil on a public route
	need      identity.Access

	looked  time.Time // last check
	asked   time.Time // last query to the database, for a session
	users   int64     // UsersRevision before that query
	refused bool
}

// WatchAccess returns an AccessWatch for the credential of a call.
func (c *Call) WatchAccess() *AccessWatch {
	now := time.Now()
	return &AccessWatch{server: c.server, principal: c.Principal, need: c.need, looked: now, asked: now, users: c.users}
}

// Ended reports whether the access has ended. It is cheap to call often.
func (a *AccessWatch) Ended() bool {
	if a.principal == nil || a.refused || time.Since(a.looked) < AccessInterval {
		return a.refused
	}
	a.looked = time.Now()
	if a.principal.Kind == audit.Token {
		token, found := a.server.o.Credentials.TokenByHash(a.principal.Proof)
		a.refused = !found || !token.ActiveAt(a.server.o.Now()) || !token.Grants(a.need)
		return a.refused
	}
	users := a.server.o.Credentials.UsersRevision()
	if users == a.users && time.Since(a.asked) < sessionInterval {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), sessionTimeout)
	defer cancel()
	holds, err := a.server.o.Sessions.SessionHolds(ctx, a.principal)
	a.asked = time.Now()
	if err != nil {
		return false // the database is unreachable, so nothing was revoked there either
	}
	a.users, a.refused = users, !holds
	return a.refused
}

// accessKey is the key of the user value that holds the AccessWatch of a request's body.
type accessKey struct{}

// takeBody reads the body of a route that does not stream it, and refuses the request if its
// access ended before the body was complete: a deleted user must not change anything by a
// request begun earlier. On a streaming route, bodyStream checks the access.
func (c *Call) takeBody(r *Route) error {
	began := c.Ctx.Context().Time()
	if onlyReads(c) { // finding the session may have taken long, which does not make it older
		began = time.Now()
	}
	if r.Streams {
		c.Ctx.Context().SetUserValue(accessKey{}, c.WatchAccess())
	} else if _, err := c.ReadBody(MaxBody); err != nil {
		return err
	}
	if c.Principal == nil || time.Since(began) < AccessInterval {
		return nil
	}
	watch := c.WatchAccess()
	watch.looked, watch.asked = time.Time{}, time.Time{}
	if watch.Ended() {
		return ErrAccessEnded
	}
	return nil
}

// accessEnded reports whether the access of the request whose body is read has ended.
func accessEnded(rc *fasthttp.RequestCtx) bool {
	watch, is := rc.UserValue(accessKey{}).(*AccessWatch)
	return is && watch.Ended()
}
