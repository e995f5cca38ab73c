package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
)

const (
	addSession = `
INSERT INTO sessions (hash, user_id, csrf, created_at, last_seen_at, expires_at, address, agent)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`
	readSession = `
SELECT hash, user_id, csrf, created_at, last_seen_at, expires_at, address, agent
FROM sessions WHERE hash = $1 AND expires_at > $2`
	touchSession     = `UPDATE sessions SET last_seen_at = $2 WHERE hash = $1 AND last_seen_at < $2`
	deleteSession    = `DELETE FROM sessions WHERE hash = $1`
	deleteSessionsOf = `DELETE FROM sessions WHERE user_id = $1`
	stampUser        = `UPDATE users SET revision = $2 WHERE id = $1`
	deleteExpired    = `DELETE FROM sessions WHERE expires_at <= $1`

	addKnownLogin = `
INSERT INTO known_logins (user_id, address, last_at, revision) VALUES ($1, $2, $3, $4)
ON CONFLICT (user_id, address) DO UPDATE SET last_at = excluded.last_at, revision = excluded.revision`
	trimKnownLogins = `
DELETE FROM known_logins WHERE user_id = $1 AND (last_at < $2 OR address NOT IN
	(SELECT address FROM known_logins WHERE user_id = $1 ORDER BY last_at DESC, revision DESC LIMIT $3))`
	deleteKnownLogins = `DELETE FROM known_logins WHERE user_id = $1`
	readKnownLogins   = `SELECT u.name, k.address, k.last_at FROM known_logins k JOIN users u ON u.id = k.user_id`
)

// errRaced refuses a login whose password was right a moment ago.
func errRaced() error {
	return fault.New(fault.Conflict, "This account was changed while you logged in; log in again.")
}

// BeginSession implements identity.Store. A change of the user holds the
// revision row too: it either comes first, and its hash is not the verified
// one, or comes after, and ends this session.
func (s *identityStore) BeginSession(ctx context.Context, by audit.Actor, session identity.Session, verified string, address identity.KnownAddress) error {
	for field, text := range map[string]string{
		"csrf": session.CSRF, "address": session.Address, "agent": session.Agent, "known": string(address),
	} {
		if err := checkText(field, text); err != nil {
			return err
		}
	}
	return s.commit(ctx, s.writer, by, func(t *tx) error {
		u, err := identitiesIn(t).user(readUserByID, "id", session.UserID)
		if fault.Is(err, fault.NotFound) {
			return errRaced()
		}
		if err != nil {
			return err
		}
		if u.PasswordHash != verified || !u.Disabled.IsZero() {
			return errRaced()
		}
		if _, err := t.exec(addSession, session.Hash, u.ID, session.CSRF, toMS(session.Created),
			toMS(session.LastSeen), expiryToMS(session.Expires), session.Address, session.Agent); err != nil {
			return err
		}
		if _, err := t.exec(noteLogin, u.ID, toMS(session.Created)); err != nil {
			return err
		}
		if err := identitiesIn(t).knowAddress(u.ID, address); err != nil {
			return err
		}
		return t.record("session.login", "user", u.ID, fmt.Sprintf("%q logged in.", u.Name), nil, nil)
	})
}

// knowAddress keeps an address known for a user, and few enough of them.
func (t identityTx) knowAddress(user string, address identity.KnownAddress) error {
	if address == "" {
		return nil
	}
	if _, err := t.exec(addKnownLogin, user, string(address), toMS(t.now), t.revision); err != nil {
		return err
	}
	_, err := t.exec(trimKnownLogins, user, toMS(t.now.Add(-identity.KnownAddressFor)), identity.MaxKnownAddresses)
	return err
}

// knownLogins reads every address that is known for a user.
func (t identityTx) knownLogins() ([]identity.KnownLogin, error) {
	return each(t.tx, func(r row) (l identity.KnownLogin, err error) {
		var last int64
		err = r.Scan(&l.User, &l.Address, &last)
		l.Last = fromMS(last)
		return l, err
	}, readKnownLogins)
}

// EndSession implements identity.Store. The user's revision moves, so that every
// node hears of it.
func (s *identityStore) EndSession(ctx context.Context, by audit.Actor, hash []byte) error {
	err := s.commit(ctx, s.writer, by, func(t *tx) error {
		all, err := each(t, scanSession, readSession, hash, toMS(t.now))
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return errUnchanged
		}
		u, err := identitiesIn(t).user(readUserByID, "id", all[0].UserID)
		if err != nil {
			return err
		}
		if _, err := t.exec(deleteSession, hash); err != nil {
			return err
		}
		if _, err := t.exec(stampUser, u.ID, t.revision); err != nil {
			return err
		}
		return t.record("session.logout", "user", u.ID, fmt.Sprintf("%q logged out.", u.Name), nil, nil)
	})
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

// FindSession implements identity.Store. An expired session is NotFound.
func (s *identityStore) FindSession(ctx context.Context, hash []byte) (session *identity.Session, u *identity.User, err error) {
	err = s.view(ctx, func(t *tx) error {
		all, err := each(t, scanSession, readSession, hash, toMS(t.now))
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return fault.New(fault.NotFound, "There is no such session; log in again.")
		}
		session = all[0]
		u, err = identitiesIn(t).user(readUserByID, "id", session.UserID)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return session, u, nil
}

func scanSession(r row) (*identity.Session, error) {
	s := &identity.Session{}
	var created, seen, expires int64
	if err := r.Scan(&s.Hash, &s.UserID, &s.CSRF, &created, &seen, &expires, &s.Address, &s.Agent); err != nil {
		return nil, err
	}
	s.Created, s.LastSeen, s.Expires = fromMS(created), fromMS(seen), expiryFromMS(expires)
	return s, nil
}

// TouchSession implements identity.Store.
func (s *identityStore) TouchSession(ctx context.Context, hash []byte, at time.Time) error {
	return s.run(ctx, touchSession, hash, toMS(at))
}

// DeleteSession implements identity.Store.
func (s *identityStore) DeleteSession(ctx context.Context, hash []byte) error {
	return s.run(ctx, deleteSession, hash)
}

// DeleteExpiredSessions gives back the room of the sessions that ended before
// at. Nothing depends on it.
func (s *identityStore) DeleteExpiredSessions(ctx context.Context, at time.Time) error {
	return s.run(ctx, deleteExpired, toMS(at))
}

// run runs one statement that is no change of the catalog.
func (s *identityStore) run(ctx context.Context, statement string, args ...any) error {
	return s.write(ctx, func(t *tx) error {
		_, err := t.exec(statement, args...)
		return err
	})
}
