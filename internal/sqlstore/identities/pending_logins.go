package identities

import (
	"context"
	"fmt"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

const (
	addPendingLogin = `INSERT INTO pending_logins (hash, user_id, expires_at, address) VALUES ($1, $2, $3, $4)`
	// Deletes the oldest pending logins, so that repeated logins keep few rows. It only deletes
	// those from the same address, so that another person who knows the password ends no login
	// of the user.
	trimPendingLogins = `
DELETE FROM pending_logins WHERE user_id = $1 AND address = $2 AND hash NOT IN
	(SELECT hash FROM pending_logins WHERE user_id = $1 AND address = $2 ORDER BY expires_at DESC, hash LIMIT $3)`
	readPendingLogin = `SELECT user_id FROM pending_logins WHERE hash = $1 AND expires_at > $2 AND attempts < $3`
	countAttempt     = `UPDATE pending_logins SET attempts = attempts + 1 WHERE hash = $1 AND expires_at > $2 AND attempts < $3 RETURNING attempts`
	// The attempt that finishes the login is already counted, and may be the last allowed one.
	deletePendingLogin = `DELETE FROM pending_logins WHERE hash = $1 AND user_id = $2 AND expires_at > $3`
	deletePendingOf    = `DELETE FROM pending_logins WHERE user_id = $1`
)

// BeginSessionWithCode implements identities.PendingLogins.
func (s *Factors) BeginSessionWithCode(ctx context.Context, by audit.Actor, session identity.Session, pending []byte, factor identity.SecondFactor, u *identity.User, known ...identity.KnownAddress) error {
	return beginSession(ctx, s.db, by, session, u.PasswordHash, known, func(t Tx, u *identity.User) (with string, err error) {
		ended, err := t.Exec(deletePendingLogin, pending, u.ID, db.ToMS(t.Now))
		if err != nil {
			return "", err
		}
		if ended == 0 {
			return "", errRaced()
		}
		if err := t.useFactor(u.ID, factor); err != nil {
			return "", err
		}
		if !factor.IsRecovery() {
			return " with a code", nil
		}
		left, err := t.recoveryCodesLeft(u.ID)
		return fmt.Sprintf(" with a recovery code; %d left", left), err
	})
}

// maxPendingLogins is how many logins of one user from one address may wait for a code at once.
// The throttle of logins bounds the number of addresses.
const maxPendingLogins = 20

// AddPendingLogin implements identities.PendingLogins. It locks the revision row, as
// BeginSession does, so that the user's password cannot change in between.
func (s *Factors) AddPendingLogin(ctx context.Context, by audit.Actor, p identity.PendingLogin, verified string) error {
	if err := db.CheckText("address", string(p.Address)); err != nil {
		return err
	}
	return s.db.ChangeWithoutRefresh(ctx, by, func(t *db.Tx) error {
		u, err := In(t).user(readUserByID, "id", p.UserID)
		if fault.Is(err, fault.NotFound) {
			return errRaced()
		}
		if err != nil {
			return err
		}
		if u.PasswordHash != verified || !u.Disabled.IsZero() || u.TOTPSince.IsZero() {
			return errRaced()
		}
		if _, err := t.Exec(addPendingLogin, p.Hash, u.ID, db.ToMS(t.Now.Add(identity.PendingLoginLifetime)), string(p.Address)); err != nil {
			return err
		}
		_, err = t.Exec(trimPendingLogins, u.ID, string(p.Address), maxPendingLogins)
		return err
	})
}

// FindPendingLogin implements identities.PendingLogins.
func (s *Factors) FindPendingLogin(ctx context.Context, hash []byte) (*identity.User, error) {
	return db.Read(ctx, s.db, func(t *db.Tx) (*identity.User, error) {
		id, err := db.Find(t, errNoPendingLogin(), db.ScanText, readPendingLogin, hash, db.ToMS(t.Now), identity.MaxPendingAttempts)
		if err != nil {
			return nil, err
		}
		return In(t).user(readUserByID, "id", id)
	})
}

// CountPendingAttempt implements identities.PendingLogins.
func (s *Factors) CountPendingAttempt(ctx context.Context, hash []byte) (left int, err error) {
	err = s.db.Write(ctx, func(t *db.Tx) error {
		attempts := 0
		counted, err := t.One(countAttempt, []any{hash, db.ToMS(t.Now), identity.MaxPendingAttempts}, &attempts)
		if err == nil && !counted {
			return errNoPendingLogin()
		}
		left = identity.MaxPendingAttempts - attempts
		return err
	})
	return left, err
}

func errNoPendingLogin() error {
	return fault.New(fault.NotFound, "This login has ended; log in again.")
}
