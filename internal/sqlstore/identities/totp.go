package identities

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

const (
	readTOTP   = `SELECT secret, confirmed_at FROM totp WHERE user_id = $1`
	addTOTP    = `INSERT INTO totp (user_id, secret, confirmed_at, last_step) VALUES ($1, $2, $3, $4)`
	deleteTOTP = `DELETE FROM totp WHERE user_id = $1`
	// A code is accepted only once. Afterwards no code of its step or of an earlier one is.
	useStep = `UPDATE totp SET last_step = $2 WHERE user_id = $1 AND last_step < $2`

	putSetup = `
INSERT INTO totp_setups (user_id, session, secret, expires_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (user_id) DO UPDATE SET session = excluded.session, secret = excluded.secret, expires_at = excluded.expires_at`
	readSetup   = `SELECT secret FROM totp_setups WHERE user_id = $1 AND session = $2 AND expires_at > $3`
	deleteSetup = `DELETE FROM totp_setups WHERE user_id = $1`

	addRecoveryCode     = `INSERT INTO recovery_codes (user_id, hash) VALUES ($1, $2)`
	deleteRecoveryCodes = `DELETE FROM recovery_codes WHERE user_id = $1`
	countRecoveryCodes  = `SELECT count(*) FROM recovery_codes WHERE user_id = $1 AND used_at = 0`
	useRecoveryCode     = `UPDATE recovery_codes SET used_at = $3 WHERE user_id = $1 AND hash = $2 AND used_at = 0`

	deleteOtherSessions = `DELETE FROM sessions WHERE user_id = $1 AND hash <> $2`
	deleteOtherKnown    = `DELETE FROM known_logins WHERE user_id = $1 AND address NOT IN ($2, $3)`
)

// Factors stores the second factors of users, and the logins that wait for a code.
type Factors struct{ db *db.DB }

// NewFactors returns the store of the second factors in a database.
func NewFactors(d *db.DB) *Factors { return &Factors{d} }

// FindUserByID implements identities.TwoFactorStore.
func (s *Factors) FindUserByID(ctx context.Context, id string) (*identity.User, error) {
	return New(s.db).FindUserByID(ctx, id)
}

// ResetTOTP implements identities.UserStore.
func (s *Store) ResetTOTP(ctx context.Context, by audit.Actor, user string) (*identity.User, error) {
	return NewFactors(s.db).reset(ctx, by, user)
}

// errUsed is the error for a valid second factor that was used before, or for a recovery code
// that the user does not have.
func errUsed(f identity.SecondFactor) error {
	e := fault.New(fault.Conflict, "This code was used already; wait for the next one.")
	if f.IsRecovery() {
		e.Message = "This is not one of the remaining recovery codes."
	}
	e.Field = "code"
	return e
}

func errNoTOTP(name string) error {
	return fault.New(fault.Conflict, "The user %q has no two-factor authentication.", name)
}

func errHasTOTP() error {
	return fault.New(fault.Conflict, "Two-factor authentication is on already; disable it before you set it up again.")
}

// useFactor marks a second factor as used. It returns an error if the factor was used before.
func (t Tx) useFactor(user string, f identity.SecondFactor) error {
	var used int64
	var err error
	if f.IsRecovery() {
		used, err = t.Exec(useRecoveryCode, user, f.RecoveryHash, db.ToMS(t.Now))
	} else {
		used, err = t.Exec(useStep, user, f.Step)
	}
	if err == nil && used == 0 {
		return errUsed(f)
	}
	return err
}

func (t Tx) recoveryCodesLeft(user string) (left int, err error) {
	_, err = t.One(countRecoveryCodes, []any{user}, &left)
	return left, err
}

// putRecoveryCodes replaces the recovery codes of a user.
func (t Tx) putRecoveryCodes(user string, hashes [][]byte) error {
	if _, err := t.Exec(deleteRecoveryCodes, user); err != nil {
		return err
	}
	for _, hash := range hashes {
		if _, err := t.Exec(addRecoveryCode, user, hash); err != nil {
			return err
		}
	}
	return nil
}

// endLogins ends the sessions of a user, and the logins that wait for a code.
func (t Tx) endLogins(user string) error {
	for _, statement := range []string{deleteSessionsOf, deletePendingOf, deleteSetup} {
		if _, err := t.Exec(statement, user); err != nil {
			return err
		}
	}
	return nil
}

// FindTOTP implements identities.TwoFactorStore.
func (s *Factors) FindTOTP(ctx context.Context, user string) (found *identity.TOTP, err error) {
	err = s.db.View(ctx, func(t *db.Tx) error {
		all, err := db.Each(t, func(r db.Row) (*identity.TOTP, error) {
			f := &identity.TOTP{}
			return f, r.Scan((*[]byte)(&f.Secret), db.MS(&f.Since))
		}, readTOTP, user)
		if err != nil || len(all) == 0 {
			return err
		}
		found = all[0]
		secret, err := db.UnsealTOTP(t, user, found.Secret)
		if err != nil && !errors.Is(err, db.ErrUnsealable) {
			return err
		}
		found.Secret = secret
		found.RecoveryLeft, err = In(t).recoveryCodesLeft(user)
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// StartTOTP implements identities.TwoFactorStore.
func (s *Factors) StartTOTP(ctx context.Context, user string, session []byte, fresh identity.TOTPSecret) (secret identity.TOTPSecret, err error) {
	err = s.db.Write(ctx, func(t *db.Tx) error {
		u, err := In(t).user(readUserByID, "id", user)
		if err != nil {
			return err
		}
		if !u.TOTPSince.IsZero() {
			return errHasTOTP()
		}
		if u.Source() != identity.Local {
			return fault.New(fault.Conflict, "You log in with an OpenID provider: set up its second factor there.")
		}
		shown, err := In(t).setup(user, session)
		if err != nil {
			return err
		}
		if shown != nil { // the page was loaded again
			secret = shown
			return nil
		}
		secret = fresh
		sealed, err := db.Seal(t, setupLabel(user), fresh)
		if err != nil {
			return err
		}
		_, err = t.Exec(putSetup, user, session, sealed, db.ToMS(t.Now.Add(identity.TOTPSetupLifetime)))
		return err
	})
	if err != nil {
		return nil, err
	}
	return secret, nil
}

// setupLabel binds a secret that is not confirmed yet to its user.
func setupLabel(user string) string { return "totp setup " + user }

// setup returns the secret that was shown in a session, nil for none.
func (t Tx) setup(user string, session []byte) (identity.TOTPSecret, error) {
	var sealed []byte
	found, err := t.One(readSetup, []any{user, session, db.ToMS(t.Now)}, &sealed)
	if err != nil || !found {
		return nil, err
	}
	secret, err := db.Unseal(t.Tx, setupLabel(user), sealed)
	if errors.Is(err, db.ErrUnsealable) {
		err = nil // a new secret replaces it
	}
	return secret, err
}

// FindTOTPSetup implements identities.TwoFactorStore.
func (s *Factors) FindTOTPSetup(ctx context.Context, user string, session []byte) (identity.TOTPSecret, error) {
	return db.Read(ctx, s.db, func(t *db.Tx) (identity.TOTPSecret, error) { return In(t).setup(user, session) })
}

// EnableTOTP implements identities.TwoFactorStore.
func (s *Factors) EnableTOTP(ctx context.Context, by audit.Actor, user string, session []byte, secret identity.TOTPSecret, step int64, codes [][]byte) error {
	return s.changeTOTP(ctx, by, user, "enable_totp", "Enabled two-factor authentication of the user %q.", func(t Tx, before *identity.User) error {
		if !before.TOTPSince.IsZero() {
			return errHasTOTP()
		}
		shown, err := t.setup(user, session)
		if err != nil {
			return err
		}
		if !bytes.Equal(shown, secret) {
			return fault.New(fault.Conflict, "The setup has expired; start again.")
		}
		sealed, err := db.Seal(t.Tx, db.TOTPLabel(user), secret)
		if err != nil {
			return err
		}
		if _, err := t.Exec(addTOTP, user, sealed, db.ToMS(t.Now), step); err != nil {
			return err
		}
		for _, statement := range []string{deletePendingOf, deleteSetup} {
			if _, err := t.Exec(statement, user); err != nil {
				return err
			}
		}
		if _, err := t.Exec(deleteOtherSessions, user, session); err != nil {
			return err
		}
		if err := t.forgetOtherAddresses(user); err != nil {
			return err
		}
		return t.putRecoveryCodes(user, codes)
	})
}

// forgetOtherAddresses forgets the known addresses of a user except that of the actor. Each
// known address has a limit of its own for codes, so a login with the password alone must not be
// enough to be known to an account that has codes.
func (t Tx) forgetOtherAddresses(user string) error {
	var kept [2]string
	if address, err := netip.ParseAddr(t.By.Address); err == nil {
		for i, known := range identity.KnownAddressesOf(address) {
			kept[i] = string(known)
		}
	}
	_, err := t.Exec(deleteOtherKnown, user, kept[0], kept[1])
	return err
}

// RenewRecoveryCodes implements identities.TwoFactorStore.
func (s *Factors) RenewRecoveryCodes(ctx context.Context, by audit.Actor, user string, factor identity.SecondFactor, codes [][]byte) error {
	return s.changeTOTP(ctx, by, user, "renew_recovery_codes", "Created new recovery codes for the user %q.", func(t Tx, before *identity.User) error {
		if before.TOTPSince.IsZero() {
			return errNoTOTP(before.Name)
		}
		if err := t.useFactor(user, factor); err != nil {
			return err
		}
		return t.putRecoveryCodes(user, codes)
	})
}

// DisableTOTP implements identities.TwoFactorStore.
func (s *Factors) DisableTOTP(ctx context.Context, by audit.Actor, user string, verified string, factor identity.SecondFactor) error {
	return s.changeTOTP(ctx, by, user, "disable_totp", "Disabled two-factor authentication of the user %q.", func(t Tx, before *identity.User) error {
		if before.TOTPSince.IsZero() {
			return errNoTOTP(before.Name)
		}
		if before.PasswordHash != verified {
			return errRaced()
		}
		if err := t.useFactor(user, factor); err != nil {
			return err
		}
		return t.removeTOTP(user)
	})
}

func (s *Factors) reset(ctx context.Context, by audit.Actor, user string) (*identity.User, error) {
	return s.changedByTOTP(ctx, by, user, "reset_totp", "Reset two-factor authentication of the user %q and ended the sessions.", func(t Tx, before *identity.User) error {
		if before.TOTPSince.IsZero() {
			return errNoTOTP(before.Name)
		}
		if err := t.endLogins(user); err != nil {
			return err
		}
		return t.removeTOTP(user)
	})
}

func (t Tx) removeTOTP(user string) error {
	for _, statement := range []string{deleteTOTP, deleteRecoveryCodes, deletePendingOf} {
		if _, err := t.Exec(statement, user); err != nil {
			return err
		}
	}
	return nil
}

// changeTOTP changes the second factor of a user, and records the change. It increases the
// user's revision, so that every node checks the user's sessions again.
func (s *Factors) changeTOTP(ctx context.Context, by audit.Actor, user, action, summary string, do func(t Tx, before *identity.User) error) error {
	_, err := s.changedByTOTP(ctx, by, user, action, summary, do)
	return err
}

// changedByTOTP is changeTOTP, and also returns the changed user.
func (s *Factors) changedByTOTP(ctx context.Context, by audit.Actor, user, action, summary string, do func(t Tx, before *identity.User) error) (after *identity.User, err error) {
	err = s.db.Change(ctx, by, func(t *db.Tx) error {
		before, err := In(t).user(readUserByID, "id", user)
		if err != nil {
			return err
		}
		if err := do(In(t), before); err != nil {
			return err
		}
		if _, err := t.Exec(stampUser, user, t.Revision); err != nil {
			return err
		}
		after, err = In(t).user(readUserByID, "id", user)
		if err != nil {
			return err
		}
		return In(t).recordUser(action, fmt.Sprintf(summary, before.Name), before, after)
	})
	if err != nil {
		return nil, err
	}
	return after, nil
}
