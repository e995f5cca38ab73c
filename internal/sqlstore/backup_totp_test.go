package sqlstore_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/test/storetest"
)

func TestRestoreDoesNotReviveSecondFactorsOrUsedCodes(t *testing.T) {
	f := storetest.OpenSQLite(t)
	ctx := t.Context()
	own := storetest.AddToken(t, f, "own", identity.Admin)
	kept, reset, later, foreign := storetest.AddUser(t, f, "kept", identity.Viewer), storetest.AddUser(t, f, "reset", identity.Viewer),
		storetest.AddUser(t, f, "later", identity.Viewer), storetest.AddUser(t, f, "foreign", identity.Viewer)
	secret, codes := storetest.SetUpTOTP(t, f.Factors, kept.ID)
	storetest.SetUpTOTP(t, f.Factors, reset.ID)
	storetest.SetUpTOTP(t, f.Factors, foreign.ID)
	path := storetest.Backup(t, f)

	used, _ := identity.SecondFactorOf(codes[0], secret, f.Clock.Now())
	step := identity.SecondFactor{Step: identity.TOTPStepAt(f.Clock.Now())}
	_, others := identity.NewRecoveryCodes()
	if err := f.Factors.RenewRecoveryCodes(ctx, storetest.Operator, kept.ID, step, others); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Identities.ResetTOTP(ctx, storetest.Operator, reset.ID); err != nil {
		t.Fatal(err)
	}
	storetest.SetUpTOTP(t, f.Factors, later.ID)
	// A user whom this database never had, as on a new machine.
	f.Exec(t, "DELETE FROM users WHERE name = 'foreign'")
	f.Exec(t, "DELETE FROM totp WHERE user_id = '"+foreign.ID+"'")
	if err := f.Restore(ctx, audit.Actor{Kind: audit.Token, ID: own.ID, Name: "own"}, path); err != nil {
		t.Fatal(err)
	}
	for _, factor := range []identity.SecondFactor{used, step} {
		storetest.WantFault(t, f.Factors.RenewRecoveryCodes(ctx, storetest.Operator, kept.ID, factor, others), fault.Conflict)
	}
	for u, has := range map[*identity.User]bool{kept: true, reset: false, later: true, foreign: true} {
		found, err := f.Factors.FindTOTP(ctx, u.ID)
		if err != nil || (found != nil) != has {
			t.Errorf("%s: %+v, %v", u.Name, found, err)
		}
		if found != nil && found.RecoveryLeft != identity.RecoveryCodeCount {
			t.Errorf("%s has %d recovery codes", u.Name, found.RecoveryLeft)
		}
	}
	for _, recent := range []int64{step.Step, step.Step + 1} {
		storetest.WantFault(t, f.Factors.RenewRecoveryCodes(ctx, storetest.Operator, foreign.ID, identity.SecondFactor{Step: recent}, others), fault.Conflict)
	}
	if err := f.Factors.RenewRecoveryCodes(ctx, storetest.Operator, foreign.ID, identity.SecondFactor{Step: step.Step + 2}, others); err != nil {
		t.Error(err)
	}
}

func TestRestoreSealsSecondFactorsWithSecretOfBackup(t *testing.T) {
	f := storetest.OpenSQLite(t)
	ctx := t.Context()
	kept, early := storetest.AddUser(t, f, "kept", identity.Viewer), storetest.AddUser(t, f, "early", identity.Viewer)
	keptSecret, _ := storetest.SetUpTOTP(t, f.Factors, kept.ID)
	earlySecret, _ := storetest.SetUpTOTP(t, f.Factors, early.ID)
	path := storetest.Backup(t, f)
	// The backup has another secret of all nodes, and stores a second factor as early builds did.
	backup := &storetest.Fixture{URL: path}
	backup.Exec(t, "UPDATE settings SET value = '"+strings.Repeat("ab", 32)+"' WHERE name = 'secret'")
	backup.Exec(t, fmt.Sprintf("UPDATE totp SET secret = x'%x' WHERE user_id = '%s'", []byte(earlySecret), early.ID))
	f.Exec(t, "DELETE FROM users WHERE name = 'early'") // as on a new machine
	f.Exec(t, "DELETE FROM totp WHERE user_id = '"+early.ID+"'")
	if err := f.Restore(ctx, storetest.Operator, path); err != nil {
		t.Fatal(err)
	}
	for u, secret := range map[*identity.User]identity.TOTPSecret{kept: keptSecret, early: earlySecret} {
		found, err := f.Factors.FindTOTP(ctx, u.ID)
		if err != nil || found == nil || !bytes.Equal(found.Secret, secret) {
			t.Errorf("the TOTP secret of %s has changed: %v", u.Name, err)
		}
		var stored []byte
		if err := f.Raw(t).QueryRowContext(ctx, "SELECT secret FROM totp WHERE user_id = $1", u.ID).Scan(&stored); err != nil || bytes.Contains(stored, secret) {
			t.Errorf("the secret of %s is stored unsealed as %x, %v", u.Name, stored, err)
		}
	}
}
