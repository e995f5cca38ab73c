package identities

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/openid"
	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/internal/wire"
)

// OpenIDLogins is the use case of logging in with an OpenID provider. It is safe for concurrent
// use.
type OpenIDLogins struct {
	Provider *openid.Provider
	Users    OpenIDStore
	Sessions *Sessions
	Throttle OpenIDThrottle
	Failed   *FailedLogins // nil: failures are not recorded
	Counter  LoginCounter  // nil: attempts are not counted
	// Reserved are names, in any case, that no user of the provider gets.
	Reserved []string
	Now      func() time.Time
}

// OpenIDStore stores the users of a provider. Its errors are those of UserStore.
type OpenIDStore interface {
	// FindUserBySubject returns a user. The error is a *fault.Error NotFound if there is none.
	FindUserBySubject(ctx context.Context, issuer, subject string) (*identity.User, error)
	FindUsers(ctx context.Context, f wire.UserList) (paging.Page[*identity.User], error)
	AddUser(ctx context.Context, by audit.Actor, u identity.User) (*identity.User, error)
	UpdateUser(ctx context.Context, by audit.Actor, id string, u identity.UserUpdate) (*identity.User, error)
	// EndSessionsOfSubject ends the sessions of a user, if there are any, and records that with
	// the reason.
	EndSessionsOfSubject(ctx context.Context, by audit.Actor, issuer, subject, reason string) error
}

// OpenIDThrottle limits the requests to the provider.
type OpenIDThrottle interface {
	// Callback counts a callback from an address. It returns how long the caller must wait
	// before the provider is asked, 0 to go on.
	Callback(ctx context.Context, from netip.Addr) time.Duration
	// CallbackDone resets the counts after a successful callback.
	CallbackDone(ctx context.Context, from netip.Addr)
	// FinishFlow reports whether a login is finished for the first time, on any node.
	FinishFlow(ctx context.Context, state string) bool
}

// Types of package openid that front ends use.
type (
	// OpenIDFailure is the reason why a login with a provider failed.
	OpenIDFailure = openid.Failure
	// OpenIDCallback is the request by which a browser returns from the provider.
	OpenIDCallback = openid.Callback
	// OpenIDStart is where to send a browser, and what it must bring back.
	OpenIDStart = openid.Started
)

// The reasons of failures that front ends explain.
const (
	OpenIDNoRole      = openid.NoRole
	OpenIDNoGroups    = openid.NoGroups
	OpenIDDisabled    = openid.Disabled
	OpenIDWrongState  = openid.WrongState
	OpenIDFlowExpired = openid.FlowExpired
	OpenIDReplayed    = openid.Replayed
	OpenIDUnreachable = openid.Unreachable
)

const (
	// OpenIDCallbackPath is the path that the provider sends browsers back to.
	OpenIDCallbackPath = openid.CallbackPath
	// OpenIDFlowLifetime is how long a login at the provider may take.
	OpenIDFlowLifetime = openid.FlowLifetime
)

// Label returns the label of the button that leads to the provider.
func (l *OpenIDLogins) Label() string { return l.Provider.Label() }

// Failing returns since when the provider has been unreachable, zero if it is reachable.
func (l *OpenIDLogins) Failing() time.Time { return l.Provider.Failing() }

// IsOverTLS reports whether browsers return from the provider over TLS.
func (l *OpenIDLogins) IsOverTLS() bool { return l.Provider.Secure() }

// LogoutURL returns the URL that ends the session at the provider, "" if it is unknown. back is
// the page of this server to return to.
func (l *OpenIDLogins) LogoutURL(back string) string { return l.Provider.LogoutURL(back) }

// Start begins a login that leads to the page next. former is the secret of the browser's
// previous session, "" for none. The error is an *OpenIDFailure or a fault.Unavailable.
func (l *OpenIDLogins) Start(ctx context.Context, next, former string) (*OpenIDStart, error) {
	started, err := l.Provider.Start(ctx, next, former)
	var failure *openid.Failure
	if err == nil || errors.As(err, &failure) {
		return started, err
	}
	return nil, fault.New(fault.Unavailable, "This node cannot log you in yet: %s.", err)
}

// FinishOpenID is the response of the provider, delivered by a browser.
type FinishOpenID struct {
	openid.Callback
	Address netip.Addr
	Agent   string // the browser
}

// OpenIDSession is a session that a login with the provider created.
type OpenIDSession struct {
	Secret string
	Next   string // the page that was requested before the login
}

// openIDActor is the actor that adds users and changes their roles according to the provider.
var openIDActor = audit.SystemActor("openid")

// Finish begins a session. It adds a user who logs in for the first time, and sets the role to
// that of the groups. A user without a role any more loses all sessions. The error is a
// *ThrottledLogin, an *openid.Failure, or a fault.Conflict if the user was changed in between.
func (l *OpenIDLogins) Finish(ctx context.Context, r FinishOpenID) (*OpenIDSession, error) {
	session, err := l.finish(ctx, r)
	count(l.Counter, identity.ByOpenID, outcomeOf(err))
	var failure *openid.Failure
	if errors.As(err, &failure) && l.Failed != nil {
		name := ""
		if failure.Person != nil {
			name = LoginName(failure.Person.Name)
		}
		l.Failed.OpenID(failure.Reason, name, r.Address, l.Now())
	}
	if err == nil {
		l.Throttle.CallbackDone(ctx, r.Address)
	}
	return session, err
}

func (l *OpenIDLogins) finish(ctx context.Context, r FinishOpenID) (*OpenIDSession, error) {
	// Responses that belong to no login of this browser are not counted: any web page can make
	// its visitors' browsers send them.
	flow, err := l.Provider.Match(r.Callback)
	if err != nil {
		return nil, err
	}
	if wait := l.Throttle.Callback(ctx, r.Address); wait > 0 {
		if l.Failed != nil {
			l.Failed.Refused(r.Address, l.Now())
		}
		return nil, &ThrottledLogin{wait}
	}
	person, err := l.Provider.Finish(ctx, flow, r.Callback)
	if err != nil {
		if failed := l.endSessions(ctx, err); failed != nil {
			return nil, failed
		}
		return nil, err
	}
	if !l.Throttle.FinishFlow(ctx, flow.State) {
		return nil, &openid.Failure{Reason: openid.Replayed, Person: person}
	}
	user, err := l.userOf(ctx, person)
	if err != nil {
		return nil, err
	}
	if !user.Disabled.IsZero() {
		return nil, &openid.Failure{Reason: openid.Disabled, Person: person}
	}
	if user.Role != person.Role { // this ends the sessions with the former role
		if user, err = l.Users.UpdateUser(ctx, openIDActor, user.ID, identity.UserUpdate{Role: &person.Role}); err != nil {
			return nil, err
		}
	}
	if flow.Former != "" {
		if err := l.Sessions.End(ctx, flow.Former, r.Address); err != nil {
			return nil, err
		}
	}
	secret, err := l.Sessions.Begin(ctx, user, r.Address, r.Agent)
	if err != nil {
		return nil, err
	}
	return &OpenIDSession{Secret: secret, Next: flow.Next}, nil
}

// endSessions ends the sessions of a person who, according to the provider, has no role any
// more.
func (l *OpenIDLogins) endSessions(ctx context.Context, err error) error {
	var failure *openid.Failure
	if !errors.As(err, &failure) || failure.Person == nil || failure.Reason != openid.NoRole && failure.Reason != openid.NoGroups {
		return nil
	}
	return l.Users.EndSessionsOfSubject(ctx, openIDActor, failure.Person.Issuer, failure.Person.Subject, string(failure.Reason))
}

// userOf returns the user of a person and adds it if there is none. It looks up users only by
// issuer and subject, since people can choose names at the provider. If another user has the
// name, in any case, the name gets a suffix.
func (l *OpenIDLogins) userOf(ctx context.Context, p *openid.Person) (*identity.User, error) {
	user, err := l.Users.FindUserBySubject(ctx, p.Issuer, p.Subject)
	if !fault.Is(err, fault.NotFound) {
		return user, err
	}
	others, err := l.Users.FindUsers(ctx, wire.UserList{})
	if err != nil {
		return nil, err
	}
	taken := slices.Clone(l.Reserved)
	for _, u := range others.Items {
		taken = append(taken, u.Name)
	}
	name := LoginName(p.Name)
	sum := sha256.Sum256([]byte(p.Issuer + "\x00" + p.Subject))
	suffix := hex.EncodeToString(sum[:])
	for _, try := range []string{name, name + "-" + suffix[:6], "user-" + suffix[:32]} {
		if slices.ContainsFunc(taken, func(name string) bool { return strings.EqualFold(name, try) }) {
			continue
		}
		user, err = l.Users.AddUser(ctx, openIDActor, identity.User{Name: try, Role: p.Role, Issuer: p.Issuer, Subject: p.Subject})
		if !fault.Is(err, fault.Conflict) {
			return user, err
		}
		// Another login of the same person may have added the user.
		if user, err := l.Users.FindUserBySubject(ctx, p.Issuer, p.Subject); !fault.Is(err, fault.NotFound) {
			return user, err
		}
	}
	return nil, fault.New(fault.Conflict, "Other users have the names that you could have here; ask an admin of Stint to delete one that is not used.")
}

// maxLoginName is the maximum length of a user name minus room for a suffix.
const maxLoginName = 56

// LoginName returns the valid user name that is closest to a person's name at the provider.
func LoginName(text string) string {
	name := strings.Map(func(r rune) rune {
		if identity.CheckUserName("a"+string(r)) == nil {
			return r
		}
		return '-'
	}, text)
	name = strings.TrimLeft(name[:min(len(name), maxLoginName)], "._@+-")
	if name = strings.TrimRight(name, "-"); name == "" {
		return "user"
	}
	return name
}
