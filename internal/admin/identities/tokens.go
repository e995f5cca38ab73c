package identities

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/internal/wire"
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
	FindTokens(ctx context.Context, f wire.TokenList) (paging.Page[*identity.Token], error)
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

// Find returns a page of the tokens.
func (t *Tokens) Find(ctx context.Context, _ admin.Caller, f wire.TokenList) (wire.Page[wire.Token], error) {
	found, err := t.Store.FindTokens(ctx, f)
	return paging.ToWire(found, t.wire), err
}

// ByID returns a token.
func (t *Tokens) ByID(ctx context.Context, _ admin.Caller, r wire.ByID) (wire.Token, error) {
	return t.shown(t.Store.FindTokenByID(ctx, r.ID))
}

// Create creates a token.
func (t *Tokens) Create(ctx context.Context, c admin.Caller, r wire.TokenRequest) (wire.CreatedToken, error) {
	if err := checkTokenName(r.Name); err != nil {
		return wire.CreatedToken{}, err
	}
	scopes, err := parseScopes(r.Scopes)
	if err != nil {
		return wire.CreatedToken{}, err
	}
	expires, err := admin.ExpiryOf(r.ExpiresIn, r.ExpiresAt).At(t.Now())
	if err != nil {
		return wire.CreatedToken{}, err
	}
	secret := identity.NewSecret(scopes)
	made, err := t.Store.AddToken(ctx, c.Actor, identity.Token{
		Name: r.Name, Hint: secret.Hint, Hash: secret.Hash[:], Scopes: scopes, Author: c.Actor.Name, Expires: expires,
	})
	return t.created(made, nil, secret, err)
}

// Rotate creates the successor of a token and makes the token expire after the overlap, both or
// neither. Without an overlap the token is revoked.
func (t *Tokens) Rotate(ctx context.Context, c admin.Caller, r wire.RotateRequest) (wire.CreatedToken, error) {
	old, err := t.Store.FindTokenByID(ctx, r.ID)
	if err != nil {
		return wire.CreatedToken{}, err
	}
	overlap := identity.DefaultOverlap
	if r.Overlap.Given {
		overlap = r.Overlap.Value.Std()
	}
	secret := identity.NewSecret(old.Scopes)
	made, replaced, err := t.Store.RotateToken(ctx, c.Actor, r.ID, secret, overlap)
	return t.created(made, replaced, secret, err)
}

// savedWarnings converts the error of a change that was saved to warnings. The caller must get
// the secret anyway, since it is not stored.
func savedWarnings(err error) ([]string, error) {
	if fault.Is(err, fault.Saved) {
		return []string{err.Error()}, nil
	}
	return nil, err
}

// created returns a new token with its secret, and the token that it replaces, nil for none.
func (t *Tokens) created(made, replaced *identity.Token, secret identity.Secret, err error) (wire.CreatedToken, error) {
	warnings, err := savedWarnings(err)
	if err != nil {
		return wire.CreatedToken{}, err
	}
	out := wire.CreatedToken{Token: t.wire(made), Secret: secret.Text, Warnings: warnings}
	if replaced != nil {
		old := t.wire(replaced)
		out.Replaces = &old
	}
	return out, nil
}

// Update changes the name or the expiry of a token.
func (t *Tokens) Update(ctx context.Context, c admin.Caller, r wire.TokenPatch) (wire.Token, error) {
	expires, err := admin.ExpiryChange(r.ExpiresIn, r.ExpiresAt, t.Now())
	if err != nil {
		return wire.Token{}, err
	}
	if !r.Name.Given && !expires.Given {
		return wire.Token{}, fault.New(fault.Invalid, "Nothing to change: send name, expires_in or expires_at.")
	}
	var change identity.TokenUpdate
	if r.Name.Given {
		if err := checkTokenName(r.Name.Value); err != nil {
			return wire.Token{}, err
		}
		change.Name = &r.Name.Value
	}
	if expires.Given {
		change.Expires = &expires.Value.Time
	}
	return t.shown(t.Store.UpdateToken(ctx, c.Actor, r.ID, change))
}

// Revoke revokes a token immediately. Revoking a revoked token changes nothing.
func (t *Tokens) Revoke(ctx context.Context, c admin.Caller, r wire.ByID) (wire.Token, error) {
	return t.shown(t.Store.RevokeToken(ctx, c.Actor, r.ID))
}

// wire returns a token as operators see it now.
func (t *Tokens) wire(of *identity.Token) wire.Token {
	return wire.Token{
		ID: of.ID, Name: of.Name, Hint: of.Hint, Scopes: wire.Texts(of.Scopes), Author: of.Author, Active: of.ActiveAt(t.Now()),
		CreatedAt: wire.At(of.Created), ExpiresAt: wire.At(of.Expires), LastUsedAt: wire.At(of.LastUsed), RevokedAt: wire.At(of.Revoked),
	}
}

func (t *Tokens) shown(of *identity.Token, err error) (wire.Token, error) {
	if err != nil {
		return wire.Token{}, err
	}
	return t.wire(of), nil
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
		return nil, fault.Field("scopes", "choose at least one of check, bouncer, captcha, read, operate and admin")
	}
	var scopes []identity.Access
	for i, text := range texts {
		field := "scopes[" + strconv.Itoa(i) + "]"
		scope := identity.Access(text)
		switch {
		case !slices.Contains(identity.Scopes, scope):
			return nil, fault.Field(field, "must be check, bouncer, captcha, read, operate or admin")
		case slices.Contains(scopes, scope):
			return nil, fault.Field(field, "is named twice; name each scope once")
		}
		scopes = append(scopes, scope)
	}
	return scopes, nil
}
