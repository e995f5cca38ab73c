package identities_test

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/test/storetest"
)

func TestRotateTokenCreatesSuccessorAndEndsToken(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx, now := t.Context(), f.Clock.Now()
		storetest.AddToken(t, f, "root", identity.Admin)
		token := storetest.NewToken("ci", identity.Check, identity.Read)
		token.Expires = now.Add(30 * 24 * time.Hour)
		old, err := f.Identities.AddToken(ctx, storetest.Operator, token)
		if err != nil {
			t.Fatal(err)
		}
		storetest.AddToken(t, f, "ci-2", identity.Check)
		rotate := func(id string, overlap time.Duration) (made, replaced *identity.Token, secret identity.Secret, err error) {
			secret = identity.NewSecret(old.Scopes)
			made, replaced, err = f.Identities.RotateToken(ctx, storetest.Operator, id, secret, overlap)
			return made, replaced, secret, err
		}
		f.Clock.Advance(10 * 24 * time.Hour)
		now = f.Clock.Now()
		made, replaced, secret, err := rotate(old.ID, time.Hour)
		if err != nil || made.Name != "ci-3" || string(made.Hash) != string(secret.Hash[:]) || len(made.Scopes) != 2 ||
			!made.Expires.Equal(now.Add(30*24*time.Hour)) || !replaced.Expires.Equal(now.Add(time.Hour)) || !replaced.Revoked.IsZero() {
			t.Fatalf("RotateToken() = %+v, %+v, %v", made, replaced, err)
		}
		// An overlap longer than the remaining time does not extend it.
		if _, again, _, err := rotate(old.ID, 24*time.Hour); err != nil || !again.Expires.Equal(now.Add(time.Hour)) {
			t.Fatalf("%+v, %v", again, err)
		}
		_, gone, _, err := rotate(made.ID, 0)
		if err != nil || gone.Revoked.IsZero() {
			t.Fatalf("RotateToken without an overlap: the old token is %+v, %v, want it revoked", gone, err)
		}
		count := func() (tokens, records int) {
			all, err := f.Identities.Tokens(ctx)
			if err != nil {
				t.Fatal(err)
			}
			page, err := f.Audit.FindRecords(ctx, audit.Filter{Action: "token"})
			if err != nil {
				t.Fatal(err)
			}
			return len(all), len(page.Records)
		}
		tokens, records := count()
		_, _, _, err = rotate(made.ID, time.Hour)
		storetest.WantFault(t, err, fault.Conflict)
		_, _, _, err = rotate("none", time.Hour)
		storetest.WantFault(t, err, fault.NotFound)
		// The second step fails, and the first is rolled back.
		if f.Postgres() {
			f.Exec(t, "ALTER TABLE tokens ADD CONSTRAINT stays CHECK (id <> '"+old.ID+"' OR revoked_at = 0)")
		} else {
			f.Exec(t, "CREATE TRIGGER stays BEFORE UPDATE ON tokens WHEN new.revoked_at > 0 BEGIN SELECT RAISE(ABORT, 'stays'); END")
		}
		if _, _, _, err := rotate(old.ID, 0); err == nil {
			t.Fatal("the second step did not fail")
		}
		if left, recorded := count(); left != tokens || recorded != records {
			t.Errorf("a failed rotation left %d tokens and %d records, want %d and %d", left, recorded, tokens, records)
		}
	})
}
