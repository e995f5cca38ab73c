package identities_test

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/test/storetest"
)

// rotate rotates a token of f.
func rotate(t *testing.T, f *storetest.Fixture, id string, overlap time.Duration) (made, replaced *identity.Token) {
	t.Helper()
	made, replaced, err := f.Identities.RotateToken(t.Context(), storetest.Operator, id, identity.NewSecret([]identity.Access{identity.Check}), overlap)
	if err != nil {
		t.Fatalf("RotateToken(%s) = %v", id, err)
	}
	return made, replaced
}

func TestTokenRotatedTwiceGivesBothSuccessorsItsWholeLifetime(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		const month = 30 * 24 * time.Hour
		add := func(name string, expires time.Time) *identity.Token {
			token := storetest.NewToken(name, identity.Check)
			token.Expires = expires
			added, err := f.Identities.AddToken(t.Context(), storetest.Operator, token)
			if err != nil {
				t.Fatal(err)
			}
			return added
		}
		permanent, monthly := add("permanent", time.Time{}), add("monthly", f.Clock.Now().Add(month))
		f.Clock.Advance(24 * time.Hour)
		for _, overlap := range []time.Duration{2 * time.Hour, time.Hour, 0} {
			if made, _ := rotate(t, f, permanent.ID, overlap); !made.Expires.IsZero() {
				t.Errorf("with an overlap of %s: the successor of a permanent token expires at %s, want never", overlap, made.Expires)
			}
			made, replaced := rotate(t, f, monthly.ID, overlap)
			if want := f.Clock.Now().Add(month); !made.Expires.Equal(want) || made.Lifetime != month {
				t.Errorf("with an overlap of %s: the successor expires at %s, %s after its creation; want %s", overlap, made.Expires, made.Lifetime, want)
			}
			if overlap > 0 && !replaced.Expires.Equal(f.Clock.Now().Add(overlap)) {
				t.Errorf("with an overlap of %s: the rotated token expires at %s", overlap, replaced.Expires)
			}
			f.Clock.Advance(time.Minute)
		}
	})
}

func TestExpirySetAfterRotationIsTheLifetimeOfSuccessors(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		token := storetest.AddToken(t, f, "ci", identity.Check)
		rotate(t, f, token.ID, time.Hour)
		week, name := f.Clock.Now().Add(7*24*time.Hour), "renamed"
		if _, err := f.Identities.UpdateToken(t.Context(), storetest.Operator, token.ID, identity.TokenUpdate{Expires: &week}); err != nil {
			t.Fatal(err)
		}
		if made, _ := rotate(t, f, token.ID, time.Hour); !made.Expires.Equal(week) {
			t.Errorf("the successor expires at %s, want %s", made.Expires, week)
		}
		// A new name leaves the lifetime as it is.
		if _, err := f.Identities.UpdateToken(t.Context(), storetest.Operator, token.ID, identity.TokenUpdate{Name: &name}); err != nil {
			t.Fatal(err)
		}
		if made, _ := rotate(t, f, token.ID, time.Hour); !made.Expires.Equal(week) {
			t.Errorf("after a change of name: the successor expires at %s, want %s", made.Expires, week)
		}
	})
}

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
