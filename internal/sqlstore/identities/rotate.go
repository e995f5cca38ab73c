package identities

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

const (
	// maxTokenName is the longest name of a token, in bytes.
	maxTokenName = 64
	// nameAttempts bounds how many names are tried for a successor.
	nameAttempts = 20
)

// RotateToken implements identities.TokenStore.
func (s *Store) RotateToken(ctx context.Context, by audit.Actor, id string, successor identity.Secret, overlap time.Duration) (made, replaced *identity.Token, err error) {
	if overlap < 0 {
		return nil, nil, fault.Field("overlap", "must not be negative")
	}
	err = s.db.Change(ctx, by, func(t *db.Tx) error {
		old, err := In(t).token(id)
		if err != nil {
			return err
		}
		if !old.ActiveAt(t.Now) {
			return fault.New(fault.Conflict, "This token is no longer valid; create a new one instead.")
		}
		if made, err = In(t).addSuccessor(old, successor); err != nil {
			return err
		}
		replaced, err = In(t).endAfter(old, overlap)
		return err
	})
	if err != nil && !fault.Is(err, fault.Saved) {
		return nil, nil, err
	}
	return made, replaced, err
}

// addSuccessor adds the token that replaces old.
func (t Tx) addSuccessor(old *identity.Token, secret identity.Secret) (*identity.Token, error) {
	made := &identity.Token{
		Name: old.Name, Hint: secret.Hint, Hash: secret.Hash[:], Scopes: old.Scopes,
		Author: t.By.Name, Created: t.Now, Lifetime: old.Lifetime, Revision: t.Revision,
	}
	if made.Lifetime > 0 {
		made.Expires = t.Now.Add(made.Lifetime)
	}
	var err error
	if made.ID, err = db.NewID(); err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		made.Name = nextName(made.Name)
		err := t.checkToken(made)
		if err == nil {
			break
		}
		if !fault.Is(err, fault.Conflict) {
			return nil, err
		}
		if attempt == nameAttempts {
			return nil, fault.New(fault.Conflict, "The names %s to %s are all taken; rename this token first.", nextName(old.Name), made.Name)
		}
	}
	if err := t.insertToken(made); err != nil {
		return nil, err
	}
	return made, t.recordToken("add", fmt.Sprintf("Added the token %q, which replaces %q.", made.Name, old.Name), nil, made)
}

// endAfter makes a token expire at the end of the overlap.
func (t Tx) endAfter(old *identity.Token, overlap time.Duration) (*identity.Token, error) {
	after := *old
	after.Revision = t.Revision
	if overlap == 0 {
		after.Revoked = t.Now
		if _, err := t.Exec(revokeToken, old.ID, db.ToMS(after.Revoked), after.Revision); err != nil {
			return nil, err
		}
		return &after, t.recordToken("revoke", fmt.Sprintf("Revoked the token %q.", after.Name), old, &after)
	}
	end := db.FromMS(db.ToMS(t.Now.Add(overlap)))
	if !old.Expires.IsZero() && !old.Expires.After(end) { // a zero Expires means never
		return old, nil
	}
	after.Expires = end
	if _, err := t.Exec(endRotated, old.ID, db.ExpiryToMS(after.Expires), after.Revision); err != nil {
		return nil, err
	}
	return &after, t.recordToken("update", fmt.Sprintf("Changed the token %q: it ends after its rotation.", after.Name), old, &after)
}

var numbered = regexp.MustCompile(`^(.*)-(\d{1,6})$`)

// nextName increments the number at the end of a name, and shortens it to maxTokenName.
func nextName(name string) string {
	base, number := name, 1
	if m := numbered.FindStringSubmatch(name); m != nil {
		base = m[1]
		number, _ = strconv.Atoi(m[2]) // at most six digits
	}
	suffix := "-" + strconv.Itoa(number+1)
	if longest := maxTokenName - len(suffix); len(base) > longest {
		base = strings.ToValidUTF8(base[:longest], "")
	}
	return base + suffix
}
