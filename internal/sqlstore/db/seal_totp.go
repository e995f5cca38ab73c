package db

import "errors"

const (
	// plainTOTPSize is the length of an unencrypted secret of an earlier release. A sealed one
	// is longer.
	plainTOTPSize = 20

	readAllTOTP = `SELECT user_id, secret FROM totp ORDER BY user_id`
	// resealTOTP changes no secret that changed since it was read.
	resealTOTP     = `UPDATE totp SET secret = $3 WHERE user_id = $1 AND secret = $2`
	countPlainTOTP = `
SELECT (SELECT count(*) FROM totp WHERE length(secret) = $1) + (SELECT count(*) FROM totp_setups WHERE length(secret) = $1)`
	// A set-up lasts minutes: the user can begin again.
	forgetPlainSetups = `DELETE FROM totp_setups WHERE length(secret) = $1`
)

// TOTPLabel binds the secret of a second factor to its user.
func TOTPLabel(user string) string { return "totp secret " + user }

// UnsealTOTP returns the secret of a user's second factor from its form in the table totp.
func UnsealTOTP(t *Tx, user string, stored []byte) ([]byte, error) {
	if len(stored) == plainTOTPSize {
		return stored, nil // a node of the earlier release is running too
	}
	return Unseal(t, TOTPLabel(user), stored)
}

// SealPlainTOTP seals the secrets of second factors that are stored unencrypted.
func SealPlainTOTP(t *Tx) error {
	stored, err := readStoredTOTP(t)
	if err != nil {
		return err
	}
	for _, s := range stored {
		if len(s.secret) != plainTOTPSize {
			continue
		}
		if err := reseal(t, s, s.secret); err != nil {
			return err
		}
	}
	_, err = t.Exec(forgetPlainSetups, plainTOTPSize)
	return err
}

// HasPlainTOTP reports whether SealPlainTOTP has anything to do.
func HasPlainTOTP(t *Tx) (bool, error) {
	var plain int64
	_, err := t.One(countPlainTOTP, []any{plainTOTPSize}, &plain)
	return plain > 0, err
}

// storedTOTP is a row of the table totp.
type storedTOTP struct {
	user   string
	secret []byte
}

func readStoredTOTP(t *Tx) ([]storedTOTP, error) {
	return Each(t, func(r Row) (s storedTOTP, err error) {
		err = r.Scan(&s.user, &s.secret)
		return s, err
	}, readAllTOTP)
}

func reseal(t *Tx, s storedTOTP, secret []byte) error {
	sealed, err := Seal(t, TOTPLabel(s.user), secret)
	if err != nil {
		return err
	}
	_, err = t.Exec(resealTOTP, s.user, s.secret, sealed)
	return err
}

// unsealAllTOTP returns the secrets of all readable second factors, by user.
func unsealAllTOTP(t *Tx) (map[string][]byte, error) {
	stored, err := readStoredTOTP(t)
	if err != nil {
		return nil, err
	}
	secrets := map[string][]byte{}
	for _, s := range stored {
		secret, err := UnsealTOTP(t, s.user, s.secret)
		if err != nil && !errors.Is(err, ErrUnsealable) {
			return nil, err
		}
		if err == nil {
			secrets[s.user] = secret
		}
	}
	return secrets, nil
}

// sealRestoredTOTP seals the second factors of a database that just got another shared secret
// by a restore: the kept ones under the new secret, and those that an old backup has
// unencrypted. Secrets that cannot be unsealed stay as they are.
func sealRestoredTOTP(t *Tx, kept map[string][]byte) error {
	stored, err := readStoredTOTP(t)
	if err != nil {
		return err
	}
	for _, s := range stored {
		_, err := UnsealTOTP(t, s.user, s.secret)
		if err != nil && !errors.Is(err, ErrUnsealable) {
			return err
		}
		if secret, known := kept[s.user]; err != nil && known {
			if err := reseal(t, s, secret); err != nil {
				return err
			}
		}
	}
	return SealPlainTOTP(t)
}
