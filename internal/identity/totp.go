package identity

import (
	"crypto/rand"
	"encoding/base32"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"
)

// The parameters of codes are those that every authenticator app has: RFC 6238 with
// SHA-1, 6 digits and steps of 30 seconds.
const (
	totpStep       = 30 // seconds
	totpSkew       = 1  // steps that the clock of a phone may be wrong by
	totpSecretSize = 20 // bytes, which are 160 bits
	totpIssuer     = "Stint"
)

var totpOptions = hotp.ValidateOpts{Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1}

// TOTPSecret is the secret that a user's authenticator app shares with Stint.
type TOTPSecret []byte

var base32Text = base32.StdEncoding.WithPadding(base32.NoPadding)

// NewTOTPSecret returns a new secret of 160 random bits.
func NewTOTPSecret() TOTPSecret {
	secret := make(TOTPSecret, totpSecretSize)
	rand.Read(secret)
	return secret
}

// String hides the secret, so that no log has it.
func (s TOTPSecret) String() string { return "hidden" }

// GoString hides the secret.
func (s TOTPSecret) GoString() string { return "hidden" }

// Text returns the secret as people type it into an app, in base 32.
func (s TOTPSecret) Text() string { return base32Text.EncodeToString(s) }

// URL returns what the QR code for an app contains. account is shown by the app.
func (s TOTPSecret) URL(account string) string {
	v := url.Values{
		"secret": {s.Text()}, "issuer": {totpIssuer}, "algorithm": {"SHA1"},
		"digits": {totpOptions.Digits.String()}, "period": {fmt.Sprint(totpStep)},
	}
	u := url.URL{Scheme: "otpauth", Host: "totp", Path: "/" + totpIssuer + ":" + account, RawQuery: v.Encode()}
	return u.String()
}

// Step returns the step whose code this is: the present one, or one before or after it.
// It takes as long for a wrong code as for a right one. A step must be accepted once
// only, which the store sees to. A secret that could not be read has no codes.
func (s TOTPSecret) Step(code string, at time.Time) (step int64, found bool) {
	if len(s) == 0 {
		return 0, false
	}
	now := TOTPStepAt(at)
	for candidate := now - totpSkew; candidate <= now+totpSkew; candidate++ {
		right, err := hotp.ValidateCustom(code, uint64(candidate), s.Text(), totpOptions) //nolint:gosec // times are after 1970
		if err == nil && right {
			step, found = candidate, true
		}
	}
	return step, found
}

// TOTPStepAt returns the step of an instant.
func TOTPStepAt(at time.Time) int64 { return at.Unix() / totpStep }

// TOTP is the second factor of a user.
type TOTP struct {
	Secret       TOTPSecret // nil where it cannot be read
	Since        time.Time
	RecoveryLeft int // recovery codes that were not used yet
}

// SecondFactor is what proves the second factor; one of both is set. Each works once.
type SecondFactor struct {
	Step         int64  // of a code of the app
	RecoveryHash []byte // of a recovery code, nil for a code of the app
}

// IsRecovery reports whether it is a recovery code.
func (f SecondFactor) IsRecovery() bool { return f.RecoveryHash != nil }

// PendingLogin is a login whose password was right and whose code is awaited. It gives
// access to nothing.
type PendingLogin struct {
	Hash    []byte // SHA-256 of the cookie's secret
	UserID  string
	Address KnownAddress // where it was begun
}

// Bounds of a login whose code is awaited.
const (
	PendingLoginLifetime = 5 * time.Minute
	MaxPendingAttempts   = 5 // codes, before the password is asked for again
)

// TOTPSetupLifetime is how long a secret that was shown can be confirmed.
const TOTPSetupLifetime = 10 * time.Minute

// RecoveryCodeCount is how many recovery codes a user gets.
const RecoveryCodeCount = 10

const recoverySize = 10 // bytes: 80 random bits, 16 characters

// NewRecoveryCodes returns recovery codes as people keep them, and their hashes.
func NewRecoveryCodes() (codes []string, hashes [][]byte) {
	for range RecoveryCodeCount {
		raw := make([]byte, recoverySize)
		rand.Read(raw)
		text := strings.ToLower(base32Text.EncodeToString(raw))
		hash := HashSecret(text)
		codes = append(codes, text[:4]+"-"+text[4:8]+"-"+text[8:12]+"-"+text[12:])
		hashes = append(hashes, hash[:])
	}
	return codes, hashes
}

// SecondFactorOf returns the second factor that somebody typed: a code of the app with
// this secret, or a recovery code, both with or without spaces and hyphens. It is false
// for what is neither; whether the user has the recovery code, the store knows.
func SecondFactorOf(typed string, secret TOTPSecret, at time.Time) (SecondFactor, bool) {
	text := factorText(typed)
	if isRecoveryText(text) {
		hash := HashSecret(text)
		return SecondFactor{RecoveryHash: hash[:]}, true
	}
	step, found := secret.Step(text, at)
	return SecondFactor{Step: step}, found
}

// IsRecoveryCode reports whether what somebody typed has the form of a recovery code, and so
// is never read as a code of the app.
func IsRecoveryCode(typed string) bool { return isRecoveryText(factorText(typed)) }

func factorText(typed string) string {
	return strings.ToLower(strings.NewReplacer(" ", "", "-", "", "\u00a0", "").Replace(typed))
}

func isRecoveryText(text string) bool { return len(text) == base32Text.EncodedLen(recoverySize) }

// TOTPRoles says which roles must have a second factor: none, or a role and those above.
type TOTPRoles string

// ParseTOTPRoles reads none, admin, operator or all.
func ParseTOTPRoles(text string) (TOTPRoles, error) {
	switch text {
	case "none", "admin", "operator", "all":
		return TOTPRoles(text), nil
	}
	return "", fmt.Errorf("must be none, admin, operator or all, got %q", text)
}

// String returns what ParseTOTPRoles reads; the zero value is none.
func (r TOTPRoles) String() string {
	if r == "" {
		return "none"
	}
	return string(r)
}

// Include reports whether a role must have a second factor.
func (r TOTPRoles) Include(role Role) bool {
	switch r {
	case "admin":
		return role == Administrator
	case "operator":
		return role == Administrator || role == Operator
	case "all":
		return true
	}
	return false
}
