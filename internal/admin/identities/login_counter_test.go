package identities_test

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/admin/identities"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/storetest"
)

// outcomes are the numbers of logins by method and outcome.
type outcomes map[string]int

func (c outcomes) CountLogin(by identity.LoginMethod, outcome identity.LoginOutcome) {
	c[string(by)+" "+string(outcome)]++
}

// is checks what was counted since the previous call.
func (c outcomes) is(t *testing.T, what string, want outcomes) {
	t.Helper()
	if !maps.Equal(c, want) {
		t.Errorf("%s: counted %v, want %v", what, c, want)
	}
	clear(c)
}

func (f *fixture) throttle() *httpserver.Throttle {
	now := func() time.Time { return f.now }
	return httpserver.NewThrottle(httpserver.ThrottleOptions{Shared: memlog.New(memlog.Options{Now: now}), Known: f.catalog.KnownLogin})
}

func (f *fixture) code(t *testing.T, secret identity.TOTPSecret) string {
	t.Helper()
	code, err := totp.GenerateCode(secret.Text(), f.now)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

func TestLoginsAreCountedByMethodAndOutcome(t *testing.T) {
	f := newFixture(t, storetest.Migrated.SQLite(t))
	counted, now, ctx := outcomes{}, func() time.Time { return f.now }, t.Context()
	logins := &identities.Logins{
		Users: f.store.Identities, Sessions: f.sessions(), Factors: f.store.Factors, Throttle: f.throttle(), Counter: counted, Now: now,
	}
	bob := f.addUser(t, "bob", "admin")
	from := netip.MustParseAddr("203.0.113.7")
	logIn := func(name, typed string) identities.LoggedIn {
		in, _ := logins.LogIn(ctx, identities.LogIn{Name: name, Password: typed, Address: from})
		return in
	}
	logIn("bob", "wrong")
	logIn("nobody", password)
	logIn("bob", password)
	counted.is(t, "by password", outcomes{"password refused": 2, "password ok": 1})

	secret, codes := storetest.SetUpTOTP(t, f.store.Factors, bob.ID)
	confirm := func(pending, typed string) {
		_, _ = logins.Confirm(ctx, identities.ConfirmLogin{Pending: pending, Code: typed, Address: from})
	}
	pending := logIn("bob", password).Pending
	confirm(pending, "12345")
	confirm(pending, f.code(t, secret))
	confirm(pending, f.code(t, secret)) // it has ended
	confirm(logIn("bob", password).Pending, codes[0])
	counted.is(t, "by code", outcomes{"password pending": 2, "totp refused": 2, "totp ok": 1, "recovery_code ok": 1})

	for range 12 {
		logIn("bob", "wrong")
	}
	if counted["password throttled"] == 0 || counted["password refused"]+counted["password throttled"] != 12 {
		t.Errorf("of 12 wrong passwords counted %v", counted)
	}
	clear(counted)
	f.now = f.now.Add(25 * time.Hour)
	f.store.Close()
	logIn("bob", password)
	counted.is(t, "without a database", outcomes{"password failed": 1})
}

func TestOwnPasswordChangeNeedsTheCurrentPassword(t *testing.T) {
	const next = "another horse battery"
	onBoth(t, func(t *testing.T, f *fixture) {
		ctx, counted, failed := t.Context(), outcomes{}, &identities.FailedLogins{}
		own := &identities.OwnPassword{
			Store: f.store.Identities, Throttle: f.throttle(), Failed: failed, Counter: counted, Now: func() time.Time { return f.now },
		}
		bob := f.addUser(t, "bob", "admin")
		caller := admin.Caller{Actor: audit.Actor{Kind: audit.User, ID: bob.ID, Name: bob.Name}, Address: netip.MustParseAddr("203.0.113.7"), Access: []identity.Access{identity.Admin}}
		sessions := f.sessions()
		secret, err := sessions.Begin(ctx, bob, caller.Address, "")
		if err != nil {
			t.Fatal(err)
		}

		// No role, not even admin, can bypass the current password.
		if _, err := f.users().SetPassword(ctx, caller, wire.PasswordRequest{ID: bob.ID, Password: next}); !fault.Is(err, fault.Forbidden) {
			t.Errorf("SetPassword of the caller: got %v, want Forbidden", err)
		}
		for field, r := range map[string]identities.ChangePassword{
			"current_password": {Current: "wrong", Password: next}, "password": {Current: password, Password: "short"},
		} {
			if err := own.Change(ctx, caller, r); !isField(err, field) {
				t.Errorf("%+v: got %v, want the field %s", r, err, field)
			}
		}
		if err := own.Change(ctx, caller, identities.ChangePassword{Current: password, Password: password}); !isField(err, "password") {
			t.Errorf("Change to the same password: got %v, want the field password", err)
		}
		counted.is(t, "refused and not changed", outcomes{"password refused": 1, "password ok": 1})
		if l, err := sessions.Find(ctx, identity.HashSecret(secret)); err != nil || l == nil {
			t.Fatalf("after failed changes the session is %v, %v; want it active", l, err)
		}

		var throttled *identities.ThrottledLogin
		for range 20 {
			if err = own.Change(ctx, caller, identities.ChangePassword{Current: "wrong", Password: next}); errors.As(err, &throttled) {
				break
			}
		}
		if throttled == nil || counted["password throttled"] != 1 {
			t.Errorf("20 wrong passwords: got %v, %v; want them throttled", err, counted)
		}
		f.now = f.now.Add(2 * time.Hour)
		if err := own.Change(ctx, caller, identities.ChangePassword{Current: password, Password: next}); err != nil {
			t.Fatal(err)
		}
		if l, err := sessions.Find(ctx, identity.HashSecret(secret)); err != nil || l != nil {
			t.Errorf("after the change the session is %v, %v; want none", l, err)
		}
		u, err := f.store.Identities.FindUserByID(ctx, bob.ID)
		if err != nil || !identity.VerifyPassword(u.PasswordHash, next) {
			t.Errorf("the password is not the new one: %v", err)
		}
		r := &records{}
		if err := failed.Flush(ctx, r); err != nil || len(r.all) == 0 || r.all[0].ObjectID != bob.ID {
			t.Errorf("recorded %+v, %v; want the failed logins of bob", r.all, err)
		}
	})
}

func TestUserWithoutAPasswordCannotChangeIt(t *testing.T) {
	f := newFixture(t, storetest.Migrated.SQLite(t))
	own := &identities.OwnPassword{Store: f.store.Identities, Throttle: f.throttle(), Now: func() time.Time { return f.now }}
	u, err := f.store.Identities.AddUser(t.Context(), ann.Actor, identity.User{Name: "kim", Role: identity.Viewer, Issuer: "https://id.example.com", Subject: "1"})
	if err != nil {
		t.Fatal(err)
	}
	kim := admin.Caller{Actor: audit.Actor{Kind: audit.User, ID: u.ID, Name: u.Name}}
	change := identities.ChangePassword{Password: "another horse battery"}
	if err := own.Change(t.Context(), kim, change); !fault.Is(err, fault.Conflict) {
		t.Errorf("Change by a user of a provider: got %v, want Conflict", err)
	}
	if has, err := own.Has(t.Context(), kim); err != nil || has {
		t.Errorf("Has of a user of a provider: got %v, %v; want false", has, err)
	}
	token := admin.Caller{Actor: audit.Actor{Kind: audit.Token, ID: u.ID}}
	if err := own.Change(t.Context(), token, change); !fault.Is(err, fault.Forbidden) {
		t.Errorf("Change by a token: got %v, want Forbidden", err)
	}
}

// TestCorrectPasswordDoesNotResetTheLimitOfCodes tries codes with a stolen session while the
// password, which is also known, is "changed" to itself.
func TestCorrectPasswordDoesNotResetTheLimitOfCodes(t *testing.T) {
	f := newFixture(t, storetest.Migrated.SQLite(t))
	throttle, now := f.throttle(), func() time.Time { return f.now }
	codes := &identities.TwoFactor{Store: f.store.Factors, Throttle: throttle, Now: now}
	own := &identities.OwnPassword{Store: f.store.Identities, Throttle: throttle, Now: now}
	bob := f.addUser(t, "bob", "admin")
	caller := admin.Caller{Actor: audit.Actor{Kind: audit.User, ID: bob.ID, Name: bob.Name}, Address: netip.MustParseAddr(storetest.Operator.Address), Access: []identity.Access{identity.Admin}}
	if _, err := f.sessions().Begin(t.Context(), bob, caller.Address, ""); err != nil { // makes the address known
		t.Fatal(err)
	}
	if err := f.catalog.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	storetest.SetUpTOTP(t, f.store.Factors, bob.ID)
	for i := range 50 {
		_, err := codes.RenewRecoveryCodes(t.Context(), caller, fmt.Sprintf("%06d", i))
		if _, limited := errors.AsType[*identities.ThrottledLogin](err); limited {
			return
		}
		if i%5 == 4 {
			if err := own.Change(t.Context(), caller, identities.ChangePassword{Current: password, Password: password}); !isField(err, "password") {
				t.Fatal(err)
			}
		}
	}
	t.Error("50 wrong codes were checked, want them throttled")
}
