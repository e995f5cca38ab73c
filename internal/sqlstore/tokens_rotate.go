package sqlstore

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
)

const (
	// maxTokenName is the longest name of a token, in bytes.
	maxTokenName = 64
	// nameAttempts is how many names are tried for a successor.
	nameAttempts = 20
)

// RotateToken implements identity.Store.
func (s *identityStore) RotateToken(ctx context.Context, by audit.Actor, id string, successor identity.Secret, overlap time.Duration) (made, replaced *identity.Token, err error) {
	if overlap < 0 {
		return nil, nil, fault.Field("overlap", "must not be negative")
	}
	err = s.change(ctx, by, func(t *tx) error {
		old, err := identitiesIn(t).token(id)
		if err != nil {
			return err
		}
		if !old.ActiveAt(t.now) {
			return fault.New(fault.Conflict, "This token has ended; make a new one instead.")
		}
		if made, err = identitiesIn(t).addSuccessor(old, successor); err != nil {
			return err
		}
		replaced, err = identitiesIn(t).endAfter(old, overlap)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return made, replaced, nil
}

// addSuccessor adds the token after old.
func (t identityTx) addSuccessor(old *identity.Token, secret identity.Secret) (*identity.Token, error) {
	made := &identity.Token{
		Name: old.Name, Hint: secret.Hint, Hash: secret.Hash[:], Scopes: old.Scopes,
		Author: t.by.Name, Created: t.now, Revision: t.revision,
	}
	if !old.Expires.IsZero() {
		made.Expires = t.now.Add(old.Expires.Sub(old.Created))
	}
	var err error
	if made.ID, err = newID(); err != nil {
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

// endAfter ends a token after the overlap.
func (t identityTx) endAfter(old *identity.Token, overlap time.Duration) (*identity.Token, error) {
	after := *old
	after.Revision = t.revision
	if overlap == 0 {
		after.Revoked = t.now
		if _, err := t.exec(revokeToken, old.ID, toMS(after.Revoked), after.Revision); err != nil {
			return nil, err
		}
		return &after, t.recordToken("revoke", fmt.Sprintf("Revoked the token %q.", after.Name), old, &after)
	}
	end := fromMS(toMS(t.now.Add(overlap)))
	if !old.Expires.IsZero() && !end.Before(old.Expires) {
		return old, nil
	}
	after.Expires = end
	if _, err := t.exec(updateToken, old.ID, after.Name, expiryToMS(after.Expires), after.Revision); err != nil {
		return nil, err
	}
	return &after, t.recordToken("update", fmt.Sprintf("Changed the token %q: it ends after its rotation.", after.Name), old, &after)
}

var numbered = regexp.MustCompile(`^(.*)-(\d{1,6})$`)

// nextName counts a name on and keeps it within maxTokenName.
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
