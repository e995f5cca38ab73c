package identities

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/paging"
)

// Tokens are the use cases of API tokens.
type Tokens struct {
	Store TokenStore
	Now   func() time.Time
}

// TokenStore stores tokens. Errors that a caller can fix are *fault.Error: NotFound; Conflict
// of the field "name" for a name that is taken; Conflict for a change after which there would
// be no enabled admin and no active admin token.
type TokenStore interface {
	FindTokens(ctx context.Context, f identity.TokenFilter) (paging.Page[*identity.Token], error)
	FindTokenByID(ctx context.Context, id string) (*identity.Token, error)
	// AddToken also returns the token with an error of the code fault.Saved.
	AddToken(ctx context.Context, by audit.Actor, t identity.Token) (*identity.Token, error)
	UpdateToken(ctx context.Context, by audit.Actor, id string, u identity.TokenUpdate) (*identity.Token, error)
	RevokeToken(ctx context.Context, by audit.Actor, id string) (*identity.Token, error)
	// RotateToken adds the successor of a token and makes the token expire after the overlap,
	// never later than it would have, both in one transaction. The successor has the same
	// scopes, the same lifetime and the first free name of the sequence "ci", "ci-2", "ci-3".
	// If the token has ended, the error is a Conflict. It also returns both tokens with an
	// error of the code fault.Saved.
	RotateToken(ctx context.Context, by audit.Actor, id string, successor identity.Secret, overlap time.Duration) (made, replaced *identity.Token, err error)
}

// maxTokenName is the longest name of a token, in bytes.
const maxTokenName = 64

// CreateToken is a request to create a token.
type CreateToken struct {
	Name   string
	Scopes []string
	Expiry blocks.Expiry // zero: the token never expires
}

// CreatedToken is a new token and its secret, which is not stored.
type CreatedToken struct {
	*identity.Token
	Secret string
	// Replaces is the token that a rotation ends, nil for none.
	Replaces *identity.Token
	// Warnings say that the token does not work on this node yet; nil for none.
	Warnings []string
}

// savedWarnings converts the error of a change that was saved to warnings. The caller must get
// the secret anyway, since it is not stored.
func savedWarnings(err error) ([]string, error) {
	if fault.Is(err, fault.Saved) {
		return []string{err.Error()}, nil
	}
	return nil, err
}

// UpdateToken is a change of a token; nil leaves a field unchanged.
type UpdateToken struct {
	Name   *string
	Expiry *blocks.Expiry // the zero Expiry means never
}

// Find returns a page of the tokens.
func (t *Tokens) Find(ctx context.Context, f identity.TokenFilter) (paging.Page[*identity.Token], error) {
	return t.Store.FindTokens(ctx, f)
}

// ByID returns a token.
func (t *Tokens) ByID(ctx context.Context, id string) (*identity.Token, error) {
	return t.Store.FindTokenByID(ctx, id)
}

// Create creates a token.
func (t *Tokens) Create(ctx context.Context, c admin.Caller, r CreateToken) (*CreatedToken, error) {
	if err := checkTokenName(r.Name); err != nil {
		return nil, err
	}
	scopes, err := parseScopes(r.Scopes)
	if err != nil {
		return nil, err
	}
	expires, err := r.Expiry.At(t.Now())
	if err != nil {
		return nil, err
	}
	secret := identity.NewSecret(scopes)
	created, err := t.Store.AddToken(ctx, c.Actor, identity.Token{
		Name: r.Name, Hint: secret.Hint, Hash: secret.Hash[:], Scopes: scopes, Author: c.Actor.Name, Expires: expires,
	})
	warnings, err := savedWarnings(err)
	if err != nil {
		return nil, err
	}
	return &CreatedToken{Token: created, Secret: secret.Text, Warnings: warnings}, nil
}

// Rotate creates the successor of a token and makes the token expire after the overlap, both or
// neither. Without an overlap the token is revoked.
func (t *Tokens) Rotate(ctx context.Context, c admin.Caller, id string, overlap time.Duration) (*CreatedToken, error) {
	old, err := t.Store.FindTokenByID(ctx, id)
	if err != nil {
		return nil, err
	}
	secret := identity.NewSecret(old.Scopes)
	created, replaced, err := t.Store.RotateToken(ctx, c.Actor, id, secret, overlap)
	warnings, err := savedWarnings(err)
	if err != nil {
		return nil, err
	}
	return &CreatedToken{Token: created, Secret: secret.Text, Replaces: replaced, Warnings: warnings}, nil
}

// Update changes the name or the expiry of a token.
func (t *Tokens) Update(ctx context.Context, c admin.Caller, id string, u UpdateToken) (*identity.Token, error) {
	if u.Name == nil && u.Expiry == nil {
		return nil, fault.New(fault.Invalid, "Nothing to change: send name, expires_in or expires_at.")
	}
	change := identity.TokenUpdate{Name: u.Name}
	if u.Name != nil {
		if err := checkTokenName(*u.Name); err != nil {
			return nil, err
		}
	}
	if u.Expiry != nil {
		expires, err := u.Expiry.At(t.Now())
		if err != nil {
			return nil, err
		}
		change.Expires = &expires
	}
	return t.Store.UpdateToken(ctx, c.Actor, id, change)
}

// Revoke revokes a token immediately. Revoking a revoked token changes nothing.
func (t *Tokens) Revoke(ctx context.Context, c admin.Caller, id string) (*identity.Token, error) {
	return t.Store.RevokeToken(ctx, c.Actor, id)
}

func checkTokenName(name string) error {
	if name == "" {
		return fault.Field("name", "is missing; send 1 to %d bytes that people recognise it by", maxTokenName)
	}
	if name != strings.TrimSpace(name) {
		return fault.Field("name", "begins or ends with a space; remove it")
	}
	return fault.CheckLine("name", name, maxTokenName)
}

func parseScopes(texts []string) ([]identity.Access, error) {
	if len(texts) == 0 {
		return nil, fault.Field("scopes", "choose at least one of check, bouncer, read, operate and admin")
	}
	var scopes []identity.Access
	for i, text := range texts {
		field := "scopes[" + strconv.Itoa(i) + "]"
		scope := identity.Access(text)
		switch {
		case !slices.Contains(identity.Scopes, scope):
			return nil, fault.Field(field, "must be check, bouncer, read, operate or admin")
		case slices.Contains(scopes, scope):
			return nil, fault.Field(field, "is named twice; name each scope once")
		}
		scopes = append(scopes, scope)
	}
	return scopes, nil
}
