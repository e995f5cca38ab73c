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
	// AccessInterval is how often a long answer looks whether its credential
	// still gives access. Together with the catalog's poll it stays within a
	// second of the revision that took the access away.
	AccessInterval = 200 * time.Millisecond
	// sessionInterval is how often a session is read again although nobody has
	// changed a user: it may have expired.
	sessionInterval = 5 * time.Second
	sessionTimeout  = 2 * time.Second
)

// ErrAccessEnded ends an answer whose credential gives no access any more.
var ErrAccessEnded = fault.New(fault.Unauthorized, "The credential of this request no longer gives access.")

// AccessWatch reports when the credential of a long answer stops giving access. It is
// for one goroutine. See Call.WatchAccess.
type AccessWatch struct {
	server    *Server
	principal *Principal // nil on a public route
	need      identity.Access

	looked  time.Time // at all
	asked   time.Time // the database, for a session
	users   int64     // UsersRevision before it was asked
	refused bool
}

// WatchAccess returns what reports the end of the access of a call.
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
		return false // the database is away: nothing can be revoked there either
	}
	a.users, a.refused = users, !holds
	return a.refused
}

// accessKey is the user value of a request with the AccessWatch of its body.
type accessKey struct{}

// takeBody reads the body of a route that does not stream it. Access that ended while the body
// came is refused: who was deleted must not change anything by a request begun before. What
// a streaming route reads later is watched by bodyStream.
func (c *Call) takeBody(r *Route) error {
	if r.Streams {
		c.Ctx.Context().SetUserValue(accessKey{}, c.WatchAccess())
	} else if _, err := c.ReadBody(MaxBody); err != nil {
		return err
	}
	// A user who must set up two-factor authentication can change nothing else, and
	// SessionHolds is about those who need not.
	if c.Principal == nil || c.Principal.MustSetUpTOTP || time.Since(c.Ctx.Context().Time()) < AccessInterval {
		return nil
	}
	watch := c.WatchAccess()
	watch.looked, watch.asked = time.Time{}, time.Time{}
	if watch.Ended() {
		return ErrAccessEnded
	}
	return nil
}

// accessEnded reports whether the access has ended that a request's body is read with.
func accessEnded(rc *fasthttp.RequestCtx) bool {
	watch, is := rc.UserValue(accessKey{}).(*AccessWatch)
	return is && watch.Ended()
}
