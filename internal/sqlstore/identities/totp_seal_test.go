package identities_test

import (
	"bytes"
	"testing"

	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/test/storetest"
)

// storedSecret returns the secret of a second factor as the database has it.
func storedSecret(t *testing.T, f *storetest.Fixture, table, user string) (stored []byte) {
	t.Helper()
	if err := f.View(t.Context(), func(tx *db.Tx) error {
		_, err := tx.One(`SELECT secret FROM `+table+` WHERE user_id = $1`, []any{user}, &stored)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return stored
}

func write(t *testing.T, f *storetest.Fixture, statement string, args ...any) {
	t.Helper()
	if err := f.Write(t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec(statement, args...)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestTOTPSecretsAreStoredSealed(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx := t.Context()
		ann, bob := storetest.AddUser(t, f, "ann", identity.Administrator), storetest.AddUser(t, f, "bob", identity.Viewer)
		session := identity.HashSecret("a session")
		shown, err := f.Factors.StartTOTP(ctx, ann.ID, session[:], identity.NewTOTPSecret())
		if err != nil {
			t.Fatal(err)
		}
		if stored := storedSecret(t, f, "totp_setups", ann.ID); len(stored) <= len(shown) || bytes.Contains(stored, shown) {
			t.Errorf("an unconfirmed secret is stored unsealed as %x", stored)
		}
		if again, err := f.Factors.FindTOTPSetup(ctx, ann.ID, session[:]); err != nil || !bytes.Equal(again, shown) {
			t.Errorf("FindTOTPSetup returned another secret, %v", err)
		}

		secret, _ := storetest.SetUpTOTP(t, f.Factors, ann.ID)
		stored := storedSecret(t, f, "totp", ann.ID)
		if len(stored) <= len(secret) || bytes.Contains(stored, secret) {
			t.Errorf("the secret is stored unsealed as %x", stored)
		}
		if found, err := f.Factors.FindTOTP(ctx, ann.ID); err != nil || !bytes.Equal(found.Secret, secret) {
			t.Errorf("FindTOTP returned another secret, %v", err)
		}

		// Write access to rows does not allow giving one user another user's second factor.
		storetest.SetUpTOTP(t, f.Factors, bob.ID)
		write(t, f, `UPDATE totp SET secret = $2 WHERE user_id = $1`, bob.ID, stored)
		found, err := f.Factors.FindTOTP(ctx, bob.ID)
		if err != nil || found == nil || found.Secret != nil {
			t.Errorf("FindTOTP() = %+v, %v, want no secret from another user's row", found, err)
		}
		if found != nil && found.RecoveryLeft != identity.RecoveryCodeCount {
			t.Errorf("%d recovery codes are left", found.RecoveryLeft)
		}
	})
}

func TestPlainTOTPSecretsAreSealedAtStart(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx := t.Context()
		ann, bob := storetest.AddUser(t, f, "ann", identity.Administrator), storetest.AddUser(t, f, "bob", identity.Viewer)
		storetest.SetUpTOTP(t, f.Factors, ann.ID)
		session, plain := identity.HashSecret("a session"), identity.NewTOTPSecret()
		if _, err := f.Factors.StartTOTP(ctx, bob.ID, session[:], identity.NewTOTPSecret()); err != nil {
			t.Fatal(err)
		}
		write(t, f, `UPDATE totp SET secret = $2 WHERE user_id = $1`, ann.ID, []byte(plain))
		write(t, f, `UPDATE totp_setups SET secret = $2 WHERE user_id = $1`, bob.ID, []byte(plain))
		if found, err := f.Factors.FindTOTP(ctx, ann.ID); err != nil || !bytes.Equal(found.Secret, plain) {
			t.Errorf("a plain row is not read: %v", err)
		}
		next := f.Another(t)
		stored := storedSecret(t, f, "totp", ann.ID)
		if len(stored) <= len(plain) || bytes.Contains(stored, plain) {
			t.Errorf("after a start the secret is stored unsealed as %x", stored)
		}
		if found, err := next.Factors.FindTOTP(ctx, ann.ID); err != nil || !bytes.Equal(found.Secret, plain) {
			t.Errorf("sealing changed the secret: %v", err)
		}
		if left := storedSecret(t, f, "totp_setups", bob.ID); left != nil {
			t.Errorf("a plain set-up is left: %x", left)
		}
		// A second start changes nothing.
		f.Another(t)
		if again := storedSecret(t, f, "totp", ann.ID); !bytes.Equal(again, stored) {
			t.Error("a sealed row was sealed again")
		}
	})
}
