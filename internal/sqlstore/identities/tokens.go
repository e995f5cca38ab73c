// Package identities stores users, sessions, logins and tokens.
package identities

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

// Store implements identities.TokenStore, identities.UserStore and identities.SessionStore.
type Store struct{ db *db.DB }

// New returns the store of the tokens, users and sessions in a database.
func New(d *db.DB) *Store { return &Store{d} }

// Tx is a transaction that reads and changes tokens, users and sessions.
type Tx struct{ *db.Tx }

func In(t *db.Tx) Tx { return Tx{t} }

const (
	tokenColumns = `
SELECT id, name, hint, hash, scopes, author, created_at, expires_at, expires_before_rotation, last_used_at, revoked_at, revision FROM tokens `
	ReadTokens       = tokenColumns + `ORDER BY id`
	readTokenByID    = tokenColumns + `WHERE id = $1`
	readTokensSince  = tokenColumns + `WHERE revision > $1`
	readActiveTokens = tokenColumns + `WHERE revoked_at = 0 AND expires_at > $1`
	// countNamesakes counts other usable tokens of the same name.
	countNamesakes = `SELECT count(*) FROM tokens WHERE name = $1 AND id <> $2 AND revoked_at = 0 AND expires_at > $3`

	addToken = `
INSERT INTO tokens (id, name, hint, hash, scopes, author, created_at, expires_at, revision)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`
	// updateToken keeps what a rotation stored unless the expiry changes.
	updateToken = `
UPDATE tokens SET name = $2, expires_at = $3, revision = $4,
       expires_before_rotation = CASE WHEN expires_at = $3 THEN expires_before_rotation ELSE 0 END
 WHERE id = $1`
	// endRotated makes a token expire earlier. The first rotation stores the expiry before it.
	endRotated = `
UPDATE tokens SET expires_at = $2, revision = $3,
       expires_before_rotation = CASE WHEN expires_before_rotation = 0 THEN expires_at ELSE expires_before_rotation END
 WHERE id = $1`
	revokeToken = `UPDATE tokens SET revoked_at = $2, revision = $3 WHERE id = $1`
	touchToken  = `UPDATE tokens SET last_used_at = $2 WHERE id = $1 AND last_used_at < $2`

	countAdmins = `
SELECT (SELECT count(*) FROM users WHERE role = 'admin' AND disabled_at = 0 AND subject = '')
     + (SELECT count(*) FROM tokens WHERE revoked_at = 0 AND expires_at > $1 AND ' ' || scopes || ' ' LIKE '% admin %')`
)

func ScanToken(r db.Row) (*identity.Token, error) {
	t := &identity.Token{}
	var scopes string
	var beforeRotation int64
	if err := r.Scan(&t.ID, &t.Name, &t.Hint, &t.Hash, &scopes, &t.Author, db.MS(&t.Created), db.Expiry(&t.Expires), &beforeRotation, db.MS(&t.LastUsed), db.MS(&t.Revoked), &t.Revision); err != nil {
		return nil, err
	}
	for _, scope := range strings.Fields(scopes) {
		t.Scopes = append(t.Scopes, identity.Access(scope))
	}
	planned := t.Expires
	if beforeRotation != 0 {
		planned = db.ExpiryFromMS(beforeRotation)
	}
	t.Lifetime = lifetime(t.Created, planned)
	return t, nil
}

// lifetime returns the lifetime of a token that expires then, 0 if it never does.
func lifetime(created, expires time.Time) time.Duration {
	if expires.IsZero() {
		return 0
	}
	return expires.Sub(created)
}

func scopesText(scopes []identity.Access) string {
	words := make([]string, len(scopes))
	for i, scope := range scopes {
		words[i] = string(scope)
	}
	return strings.Join(words, " ")
}

// TokensSince returns the tokens that changed since a revision, or all usable ones for 0.
func (t Tx) TokensSince(since int64) ([]*identity.Token, error) {
	if since == 0 {
		return db.Each(t.Tx, ScanToken, readActiveTokens, db.ToMS(t.Now))
	}
	return db.Each(t.Tx, ScanToken, readTokensSince, since)
}

// Tokens returns all tokens, revoked and expired ones included.
func (s *Store) Tokens(ctx context.Context) ([]*identity.Token, error) {
	return db.List(ctx, s.db, ScanToken, ReadTokens)
}

func (t Tx) token(id string) (*identity.Token, error) {
	none := fault.New(fault.NotFound, "There is no token with the id %q.", id)
	if db.CheckText("id", id) != nil {
		return nil, none
	}
	return db.Find(t.Tx, none, ScanToken, readTokenByID, id)
}

// FindTokenByID implements identities.TokenStore.
func (s *Store) FindTokenByID(ctx context.Context, id string) (*identity.Token, error) {
	return db.Read(ctx, s.db, func(t *db.Tx) (*identity.Token, error) { return In(t).token(id) })
}

// changeToken runs a change that ends with one token. It returns the token also with an error
// of the code fault.Saved.
func (s *Store) changeToken(ctx context.Context, by audit.Actor, do func(t *db.Tx) (*identity.Token, error)) (left *identity.Token, err error) {
	err = s.db.Change(ctx, by, func(t *db.Tx) error {
		left, err = do(t)
		return err
	})
	if err != nil && !fault.Is(err, fault.Saved) {
		return nil, err
	}
	return left, err
}

// AddToken implements identities.TokenStore. It fills in the id, the time of creation and, if
// it is empty, the author. A name can be used again once its token is no longer usable.
func (s *Store) AddToken(ctx context.Context, by audit.Actor, token identity.Token) (*identity.Token, error) {
	if len(token.Hash) != sha256.Size {
		return nil, errors.New("a token's hash is not a SHA-256")
	}
	return s.changeToken(ctx, by, func(t *db.Tx) (*identity.Token, error) {
		made := token
		var err error
		if made.ID, err = db.NewID(); err != nil {
			return nil, err
		}
		made.Created, made.Expires, made.LastUsed, made.Revoked, made.Revision = t.Now, db.FromMS(db.ToMS(token.Expires)), time.Time{}, time.Time{}, t.Revision
		made.Lifetime = lifetime(made.Created, made.Expires)
		if made.Author == "" {
			made.Author = t.By.Name
		}
		if err := In(t).checkToken(&made); err != nil {
			return nil, err
		}
		if !made.ActiveAt(t.Now) {
			return nil, fault.Field("expires_at", "must lie in the future")
		}
		if err := In(t).insertToken(&made); err != nil {
			return nil, err
		}
		return &made, In(t).recordToken("add", fmt.Sprintf("Added the token %q.", made.Name), nil, &made)
	})
}

func (t Tx) insertToken(made *identity.Token) error {
	_, err := t.Exec(addToken, made.ID, made.Name, made.Hint, made.Hash, scopesText(made.Scopes), made.Author,
		db.ToMS(made.Created), db.ExpiryToMS(made.Expires), made.Revision)
	return err
}

// checkToken refuses a name that another usable token has.
func (t Tx) checkToken(token *identity.Token) error {
	var others int
	if _, err := t.One(countNamesakes, []any{token.Name, token.ID, db.ToMS(t.Now)}, &others); err != nil {
		return err
	}
	if others > 0 {
		e := fault.New(fault.Conflict, "There is already a token named %q.", token.Name)
		e.Field = "name"
		return e
	}
	return nil
}

// UpdateToken implements identities.TokenStore.
func (s *Store) UpdateToken(ctx context.Context, by audit.Actor, id string, u identity.TokenUpdate) (*identity.Token, error) {
	return s.changeToken(ctx, by, func(t *db.Tx) (*identity.Token, error) {
		before, err := In(t).token(id)
		if err != nil {
			return nil, err
		}
		if !before.Revoked.IsZero() {
			return nil, fault.New(fault.Conflict, "The token %q is revoked.", before.Name)
		}
		after := *before
		if u.Name != nil {
			after.Name = *u.Name
		}
		if u.Expires != nil {
			after.Expires = db.FromMS(db.ToMS(*u.Expires))
		}
		if !after.Expires.Equal(before.Expires) {
			after.Lifetime = lifetime(after.Created, after.Expires)
		} else if after.Name == before.Name {
			return before, db.ErrUnchanged
		}
		after.Revision = t.Revision
		if err := In(t).checkToken(&after); err != nil {
			return nil, err
		}
		if _, err := t.Exec(updateToken, id, after.Name, db.ExpiryToMS(after.Expires), after.Revision); err != nil {
			return nil, err
		}
		if err := In(t).recordToken("update", fmt.Sprintf("Changed the token %q.", after.Name), before, &after); err != nil {
			return nil, err
		}
		return &after, In(t).keepAdmin(before.Grants(identity.Admin))
	})
}

// RevokeToken implements identities.TokenStore. Revoking a revoked token changes
// nothing.
func (s *Store) RevokeToken(ctx context.Context, by audit.Actor, id string) (*identity.Token, error) {
	return s.changeToken(ctx, by, func(t *db.Tx) (*identity.Token, error) {
		before, err := In(t).token(id)
		if err != nil {
			return nil, err
		}
		if !before.Revoked.IsZero() {
			return before, db.ErrUnchanged
		}
		after := *before
		after.Revoked, after.Revision = t.Now, t.Revision
		if _, err := t.Exec(revokeToken, id, db.ToMS(after.Revoked), after.Revision); err != nil {
			return nil, err
		}
		if err := In(t).recordToken("revoke", fmt.Sprintf("Revoked the token %q.", after.Name), before, &after); err != nil {
			return nil, err
		}
		return &after, In(t).keepAdmin(before.Grants(identity.Admin) && before.ActiveAt(t.Now))
	})
}

// keepAdmin refuses a change, already made in this transaction, that left nobody who can
// administer Stint. A change that removed no admin is allowed even if there is none.
func (t Tx) keepAdmin(tookAdmin bool) error {
	if !tookAdmin {
		return nil
	}
	admins, err := CountAdmins(t.Tx)
	if err != nil {
		return err
	}
	if admins == 0 {
		return fault.New(fault.Conflict, "This would leave no enabled admin with a password and no active admin token; create another first.")
	}
	return nil
}

// CountAdmins returns how many users and tokens can administer Stint: the enabled admins with a
// password and the active admin tokens.
func CountAdmins(t *db.Tx) (admins int, err error) {
	_, err = t.One(countAdmins, []any{db.ToMS(t.Now)}, &admins)
	return admins, err
}

// TouchTokens stores when tokens were last used. It writes no audit record.
func (s *Store) TouchTokens(ctx context.Context, used map[string]time.Time) error {
	if len(used) == 0 {
		return nil
	}
	return s.db.Write(ctx, func(t *db.Tx) error {
		for id, at := range used {
			if _, err := t.Exec(touchToken, id, db.ToMS(at)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t Tx) recordToken(action, summary string, before, after *identity.Token) error {
	type view struct {
		ID      string            `json:"id"`
		Name    string            `json:"name"`
		Hint    string            `json:"hint"`
		Scopes  []identity.Access `json:"scopes"`
		Author  string            `json:"author"`
		Created time.Time         `json:"created_at"`
		Expires time.Time         `json:"expires_at,omitzero"`
		Revoked time.Time         `json:"revoked_at,omitzero"`
	}
	viewOf := func(t *identity.Token) any {
		if t == nil {
			return nil
		}
		return view{t.ID, t.Name, t.Hint, t.Scopes, t.Author, t.Created, t.Expires, t.Revoked}
	}
	return t.Record("token."+action, "token", after.ID, summary, viewOf(before), viewOf(after))
}
