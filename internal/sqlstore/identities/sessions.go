package identities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/sqlstore/db"
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

	deleteExpiredPending = `DELETE FROM pending_logins WHERE expires_at <= $1`
	deleteExpiredSetups  = `DELETE FROM totp_setups WHERE expires_at <= $1`

	addKnownLogin = `
INSERT INTO known_logins (user_id, address, last_at, revision) VALUES ($1, $2, $3, $4)
ON CONFLICT (user_id, address) DO UPDATE SET last_at = excluded.last_at, revision = excluded.revision`
	trimKnownLogins = `
DELETE FROM known_logins WHERE user_id = $1 AND (last_at < $2 OR address NOT IN
	(SELECT address FROM known_logins WHERE user_id = $1 ORDER BY last_at DESC, revision DESC LIMIT $3))`
	deleteKnownLogins = `DELETE FROM known_logins WHERE user_id = $1`
	readKnownLogins   = `SELECT u.name, k.address, k.last_at FROM known_logins k JOIN users u ON u.id = k.user_id`
)

// errRaced is the error for a login during which the account was changed, after its password
// was verified.
func errRaced() error {
	return fault.New(fault.Conflict, "This account was changed while you logged in; log in again.")
}

// BeginSession implements identities.SessionStore. A change of the user also locks the revision
// row. If the change comes first, the password hash differs from the verified one. If it comes
// later, it ends this session.
func (s *Store) BeginSession(ctx context.Context, by audit.Actor, session identity.Session, verified string, known ...identity.KnownAddress) error {
	return beginSession(ctx, s.db, by, session, verified, known, func(t Tx, u *identity.User) (with string, err error) {
		if !u.TOTPSince.IsZero() { // two-factor authentication was set up after the password was verified
			return "", errRaced()
		}
		return "", nil
	})
}

// beginSession begins the session of a user whose password hash still equals verified. prove
// checks what else the login needs, and returns the text about it for the audit record.
func beginSession(ctx context.Context, d *db.DB, by audit.Actor, session identity.Session, verified string, known []identity.KnownAddress,
	prove func(Tx, *identity.User) (with string, err error),
) error {
	for field, text := range map[string]string{
		"csrf": session.CSRF, "address": session.Address, "agent": session.Agent,
	} {
		if err := db.CheckText(field, text); err != nil {
			return err
		}
	}
	return d.ChangeWithoutRefresh(ctx, by, func(t *db.Tx) error {
		u, err := In(t).user(readUserByID, "id", session.UserID)
		if fault.Is(err, fault.NotFound) {
			return errRaced()
		}
		if err != nil {
			return err
		}
		if u.PasswordHash != verified || !u.Disabled.IsZero() {
			return errRaced()
		}
		with, err := prove(In(t), u)
		if err != nil {
			return err
		}
		if _, err := t.Exec(addSession, session.Hash, u.ID, session.CSRF, db.ToMS(session.Created),
			db.ToMS(session.LastSeen), db.ExpiryToMS(session.Expires), session.Address, session.Agent); err != nil {
			return err
		}
		if _, err := t.Exec(noteLogin, u.ID, db.ToMS(session.Created)); err != nil {
			return err
		}
		for _, address := range known {
			if err := In(t).knowAddress(u.ID, address); err != nil {
				return err
			}
		}
		if u.Source() == identity.OpenID {
			with = " with the OpenID provider " + u.Issuer
		}
		return t.Record("session.login", "user", u.ID, fmt.Sprintf("%q logged in%s.", u.Name, with), nil, nil)
	})
}

// knowAddress stores a known address of a user, and bounds the number of them.
func (t Tx) knowAddress(user string, address identity.KnownAddress) error {
	if err := db.CheckText("known", string(address)); err != nil {
		return err
	}
	if _, err := t.Exec(addKnownLogin, user, string(address), db.ToMS(t.Now), t.Revision); err != nil {
		return err
	}
	_, err := t.Exec(trimKnownLogins, user, db.ToMS(t.Now.Add(-identity.KnownAddressFor)), identity.MaxKnownAddresses)
	return err
}

// KnownLogins reads the known addresses of all users.
func (t Tx) KnownLogins() ([]identity.KnownLogin, error) {
	return db.Each(t.Tx, func(r db.Row) (l identity.KnownLogin, err error) {
		err = r.Scan(&l.User, &l.Address, db.MS(&l.Last))
		return l, err
	}, readKnownLogins)
}

// EndSession implements identities.SessionStore. It increases the user's revision, so that
// every node checks the user's sessions again.
func (s *Store) EndSession(ctx context.Context, by audit.Actor, hash []byte) error {
	err := s.db.ChangeWithoutRefresh(ctx, by, func(t *db.Tx) error {
		session, err := db.Find(t, db.ErrUnchanged, scanSession, readSession, hash, db.ToMS(t.Now))
		if err != nil {
			return err
		}
		u, err := In(t).user(readUserByID, "id", session.UserID)
		if err != nil {
			return err
		}
		if _, err := t.Exec(deleteSession, hash); err != nil {
			return err
		}
		if _, err := t.Exec(stampUser, u.ID, t.Revision); err != nil {
			return err
		}
		return t.Record("session.logout", "user", u.ID, fmt.Sprintf("%q logged out.", u.Name), nil, nil)
	})
	if errors.Is(err, db.ErrUnchanged) {
		return nil
	}
	return err
}

// EndSessionsOfSubject implements identities.OpenIDStore. It increases the user's revision, so
// that every node ends the user's event streams.
func (s *Store) EndSessionsOfSubject(ctx context.Context, by audit.Actor, issuer, subject, reason string) error {
	found, err := s.FindUserBySubject(ctx, issuer, subject)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	err = s.db.ChangeWithoutRefresh(ctx, by, func(t *db.Tx) error {
		u, err := In(t).user(readUserByID, "id", found.ID)
		if fault.Is(err, fault.NotFound) {
			return db.ErrUnchanged
		}
		if err != nil {
			return err
		}
		ended, err := t.Exec(deleteSessionsOf, u.ID)
		if err != nil {
			return err
		}
		if ended == 0 {
			return db.ErrUnchanged
		}
		if _, err := t.Exec(stampUser, u.ID, t.Revision); err != nil {
			return err
		}
		return t.Record("session.end_all", "user", u.ID, fmt.Sprintf("Ended the sessions of the user %q: %s.", u.Name, reason), nil, nil)
	})
	if errors.Is(err, db.ErrUnchanged) {
		return nil
	}
	return err
}

// FindSession implements identities.SessionStore. An expired session is NotFound.
func (s *Store) FindSession(ctx context.Context, hash []byte) (session *identity.Session, u *identity.User, err error) {
	err = s.db.View(ctx, func(t *db.Tx) error {
		none := fault.New(fault.NotFound, "There is no such session; log in again.")
		if session, err = db.Find(t, none, scanSession, readSession, hash, db.ToMS(t.Now)); err != nil {
			return err
		}
		u, err = In(t).user(readUserByID, "id", session.UserID)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return session, u, nil
}

func scanSession(r db.Row) (*identity.Session, error) {
	s := &identity.Session{}
	if err := r.Scan(&s.Hash, &s.UserID, &s.CSRF, db.MS(&s.Created), db.MS(&s.LastSeen), db.Expiry(&s.Expires), &s.Address, &s.Agent); err != nil {
		return nil, err
	}
	return s, nil
}

// TouchSession implements identities.SessionStore.
func (s *Store) TouchSession(ctx context.Context, hash []byte, at time.Time) error {
	return s.db.Run(ctx, touchSession, hash, db.ToMS(at))
}

// DeleteSession implements identities.SessionStore.
func (s *Store) DeleteSession(ctx context.Context, hash []byte) error {
	return s.db.Run(ctx, deleteSession, hash)
}

// DeleteExpiredSessions deletes the sessions, pending logins and set-ups that expired before
// at. It only frees space: expired rows have no effect.
func (s *Store) DeleteExpiredSessions(ctx context.Context, at time.Time) error {
	return s.db.Write(ctx, func(t *db.Tx) error {
		for _, statement := range []string{deleteExpired, deleteExpiredPending, deleteExpiredSetups} {
			if _, err := t.Exec(statement, db.ToMS(at)); err != nil {
				return err
			}
		}
		return nil
	})
}
