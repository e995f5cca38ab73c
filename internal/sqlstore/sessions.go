package sqlstore

import (
	"context"
	"time"

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
	deleteExpired    = `DELETE FROM sessions WHERE expires_at <= $1`
)

// AddSession implements identity.Store. The user must exist.
func (s *Store) AddSession(ctx context.Context, session identity.Session) error {
	for field, text := range map[string]string{"csrf": session.CSRF, "address": session.Address, "agent": session.Agent} {
		if err := checkText(field, text); err != nil {
			return err
		}
	}
	return s.write(ctx, func(t *tx) error {
		if _, err := t.user(readUserByID, "id", session.UserID); err != nil {
			return err
		}
		_, err := t.exec(addSession, session.Hash, session.UserID, session.CSRF, toMS(session.Created),
			toMS(session.LastSeen), expiryToMS(session.Expires), session.Address, session.Agent)
		return err
	})
}

// FindSession implements identity.Store. An expired session is NotFound.
func (s *Store) FindSession(ctx context.Context, hash []byte) (session *identity.Session, u *identity.User, err error) {
	err = s.view(ctx, func(t *tx) error {
		all, err := each(t, scanSession, readSession, hash, toMS(t.now))
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return fault.New(fault.NotFound, "There is no such session; log in again.")
		}
		session = all[0]
		u, err = t.user(readUserByID, "id", session.UserID)
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
func (s *Store) TouchSession(ctx context.Context, hash []byte, at time.Time) error {
	return s.run(ctx, touchSession, hash, toMS(at))
}

// DeleteSession implements identity.Store.
func (s *Store) DeleteSession(ctx context.Context, hash []byte) error {
	return s.run(ctx, deleteSession, hash)
}

// DeleteSessionsOf implements identity.Store.
func (s *Store) DeleteSessionsOf(ctx context.Context, userID string) error {
	return s.run(ctx, deleteSessionsOf, userID)
}

// DeleteExpiredSessions gives back the room of the sessions that ended before
// at. Nothing depends on it.
func (s *Store) DeleteExpiredSessions(ctx context.Context, at time.Time) error {
	return s.run(ctx, deleteExpired, toMS(at))
}

// run runs one statement that is no change of the catalog.
func (s *Store) run(ctx context.Context, statement string, args ...any) error {
	return s.write(ctx, func(t *tx) error {
		_, err := t.exec(statement, args...)
		return err
	})
}
