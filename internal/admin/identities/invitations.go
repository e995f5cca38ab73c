package identities

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/wire"
)

// Bounds of the lifetime of an invitation.
const (
	invitationLifetime    = 3 * 24 * time.Hour
	maxInvitationLifetime = 30 * 24 * time.Hour
)

// InvitationPath is the path of the page on which an invitation is accepted; the code is its query
// parameter "code".
const InvitationPath = "/invitation"

// errNoInvitation is the error for every invitation that is not valid. It does not say why.
var errNoInvitation = fault.New(fault.NotFound, "This invitation has expired, was used, or was replaced by a newer one. Ask an admin for a new one.")

// Invite returns an invitation for another user with a password: a link by which the user sets a
// password. It is signed and stored nowhere, and works until it expires or the user gets another revision:
// by a password, another invitation or role, being disabled, a change of the second factor, or a logout.
func (u *Users) Invite(ctx context.Context, c admin.Caller, r wire.InvitationRequest) (wire.Invitation, error) {
	var none wire.Invitation
	if c.Actor.Kind == audit.User && c.Actor.ID == r.ID {
		return none, fault.New(fault.Forbidden, "You cannot invite yourself: change your password on the page of your account, where the current one is asked for.")
	}
	lifetime := time.Duration(r.ExpiresIn)
	switch {
	case lifetime == 0:
		lifetime = invitationLifetime
	case lifetime < time.Minute || lifetime > maxInvitationLifetime:
		return none, fault.Field("expires_in", "must be from 1m to 30d")
	}
	expires := u.Now().Add(lifetime).UTC().Truncate(time.Second)
	user, err := u.Store.InviteUser(ctx, c.Actor, r.ID, phrase.Duration(lifetime))
	if err != nil {
		return none, err
	}
	code := user.ID + "." + strconv.FormatInt(expires.Unix(), 36) + "." + u.sign(user, expires)
	return wire.Invitation{User: user.Name, Path: InvitationPath + "?" + url.Values{"code": {code}}.Encode(), ExpiresAt: wire.At(expires)}, nil
}

// sign returns the signature of an invitation, which depends on the present state of the user.
func (u *Users) sign(user *identity.User, expires time.Time) string {
	mac := hmac.New(sha256.New, u.Secret())
	fmt.Fprintf(mac, "invitation of a user\n%s\n%d\n%s\n%d", user.ID, expires.Unix(), user.PasswordHash, user.Revision)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// FindInvited returns the user of an invitation that is valid.
func (u *Users) FindInvited(ctx context.Context, code string) (*identity.User, error) {
	parts := strings.Split(code, ".")
	if len(parts) != 3 {
		return nil, errNoInvitation
	}
	seconds, err := strconv.ParseInt(parts[1], 36, 64)
	expires := time.Unix(seconds, 0)
	if err != nil || !u.Now().Before(expires) {
		return nil, errNoInvitation
	}
	user, err := u.Store.FindUserByID(ctx, parts[0])
	switch {
	case fault.Is(err, fault.NotFound), fault.Is(err, fault.Invalid):
		return nil, errNoInvitation
	case err != nil:
		return nil, err
	case !hmac.Equal([]byte(parts[2]), []byte(u.sign(user, expires))), !user.Disabled.IsZero(), user.Source() != identity.Local:
		return nil, errNoInvitation
	}
	return user, nil
}

// Accept sets the password of the user of an invitation, and ends the user's sessions. A second factor
// stays.
func (u *Users) Accept(ctx context.Context, c admin.Caller, code, password string) (name string, err error) {
	user, err := u.FindInvited(ctx, code)
	if err != nil {
		return "", err
	}
	hash, err := hashPassword(password)
	if err != nil {
		return user.Name, err
	}
	actor := c.Actor
	actor.Kind, actor.ID, actor.Name = audit.User, user.ID, user.Name
	_, err = u.Store.UpdateUser(ctx, actor, user.ID, identity.UserUpdate{PasswordHash: &hash, Verified: user.PasswordHash})
	if fault.Is(err, fault.Conflict) { // another request was first
		err = errNoInvitation
	}
	return user.Name, err
}
