// Package identity holds who may do what: users with a password and a role,
// API tokens with scopes, and the sessions of the admin pages.
package identity

import (
	"errors"
	"regexp"
	"slices"
	"time"
)

// Access is what a route asks for and what roles and scopes give.
type Access string

// The accesses. Read, Operate and Admin each include the one before. Check and Bouncer
// are apart: Check lets a client ask, and see nothing; Bouncer lets a program fetch the
// active blocks, to enforce them elsewhere, and Captcha, which includes it, those that challenge
// too. Account is what every login of a user gives,
// and no token: to look after one's own login.
const (
	Public  Access = "public" // no credential needed
	Check   Access = "check"
	Bouncer Access = "bouncer"
	Captcha Access = "captcha"
	Read    Access = "read"
	Operate Access = "operate"
	Admin   Access = "admin"
	Account Access = "account"
)

// Scopes are the accesses that a token may have.
var Scopes = []Access{Check, Bouncer, Captcha, Read, Operate, Admin}

var accessOrder = []Access{Read, Operate, Admin}

// Grants reports whether holding a is enough where need is asked.
func (a Access) Grants(need Access) bool {
	if need == Public || a == need || a == Captcha && need == Bouncer {
		return true
	}
	have, want := slices.Index(accessOrder, a), slices.Index(accessOrder, need)
	return have >= 0 && want >= 0 && have >= want
}

// Role is what a user may do.
type Role string

// The roles.
const (
	Viewer        Role = "viewer"   // reads
	Operator      Role = "operator" // and handles blocks, exemptions and resets
	Administrator Role = "admin"    // and policies, tokens and users
)

// Access returns what a role gives, "" for an unknown one.
func (r Role) Access() Access {
	switch r {
	case Viewer:
		return Read
	case Operator:
		return Operate
	case Administrator:
		return Admin
	}
	return ""
}

// Token is an API token. The secret itself is kept nowhere.
type Token struct {
	ID      string // UUIDv7
	Name    string
	Hint    string // the first characters of the secret, to recognise it by
	Hash    []byte // SHA-256 of the secret
	Scopes  []Access
	Created time.Time
	Author  string
	Expires time.Time // zero: never
	// Lifetime is how long after its creation the token expires, or would have expired before
	// a rotation shortened it; zero: never.
	Lifetime time.Duration
	LastUsed time.Time // zero: never; to within a minute
	Revoked  time.Time // zero: not revoked
	Revision int64
}

// ActiveAt reports whether t can be used at that instant.
func (t *Token) ActiveAt(at time.Time) bool {
	return t.Revoked.IsZero() && (t.Expires.IsZero() || at.Before(t.Expires))
}

// Grants reports whether any scope of t is enough where need is asked.
func (t *Token) Grants(need Access) bool {
	return slices.ContainsFunc(t.Scopes, func(a Access) bool { return a.Grants(need) })
}

// BootstrapAuthor is the author of the tokens that a node adds when it starts. They are kept
// when they have ended: the node is given the same secret at every start, and adds it only
// where the database does not know it.
const BootstrapAuthor = "first start"

// DefaultOverlap is how long a token goes on after it was rotated.
const DefaultOverlap = 24 * time.Hour

// User is a person who logs in.
type User struct {
	ID           string // UUIDv7
	Name         string
	Role         Role
	PasswordHash string // argon2id in PHC form, "" for a user of an OpenID provider
	// Issuer and Subject are who this is at an OpenID provider; both are "" for a user
	// with a password.
	Issuer, Subject string
	Created         time.Time
	LastLogin       time.Time // zero: never
	Disabled        time.Time // zero: enabled
	TOTPSince       time.Time // since when logins need a code too; zero: they do not
	Revision        int64
}

var userName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._@+-]{0,63}$`)

// CheckUserName returns an error that says what would be right unless a user may have the
// name.
func CheckUserName(name string) error {
	if !userName.MatchString(name) {
		return errors.New("must be 1 to 64 letters, digits and . _ @ + -, beginning with a letter or digit")
	}
	return nil
}

// Source is where a user comes from.
type Source string

// The sources.
const (
	Local  Source = "local" // made here, with a password
	OpenID Source = "oidc"  // logs in with an OpenID provider, which has no password here
)

// Source returns where u comes from.
func (u *User) Source() Source {
	if u.Subject != "" {
		return OpenID
	}
	return Local
}

// Session is one login of a user.
type Session struct {
	Hash     []byte // SHA-256 of the cookie's secret
	UserID   string
	CSRF     string
	Created  time.Time
	LastSeen time.Time
	Expires  time.Time // absolute end
	Address  string
	Agent    string
}

// TokenUpdate changes a token; nil leaves a field as it is.
type TokenUpdate struct {
	Name    *string
	Expires *time.Time // zero time: never
}

// UserUpdate changes a user; nil leaves a field as it is.
type UserUpdate struct {
	Role         *Role
	PasswordHash *string
	Disabled     *bool
	RemoveTOTP   bool // takes the second factor away
	// Verified is the password hash that the present password was verified against; where it
	// is no longer the user's, nothing is changed. Empty where nobody gave a password.
	Verified string
}
