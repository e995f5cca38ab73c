package identities_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/test/storetest"
)

func TestChangingUserEndsOnlyThatUsersSessions(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx := t.Context()
		storetest.AddToken(t, f, "root", identity.Admin)
		other := storetest.AddUser(t, f, "other", identity.Viewer)
		kept := storetest.BeginSession(t, f, other, "other's")
		role, password, disabled := identity.Viewer, "$argon2id$new", true
		for name, change := range map[string]func(id string) error{
			"role": func(id string) error {
				_, err := f.Identities.UpdateUser(ctx, storetest.Operator, id, identity.UserUpdate{Role: &role})
				return err
			},
			"password": func(id string) error {
				_, err := f.Identities.UpdateUser(ctx, storetest.Operator, id, identity.UserUpdate{PasswordHash: &password})
				return err
			},
			"disable": func(id string) error {
				_, err := f.Identities.UpdateUser(ctx, storetest.Operator, id, identity.UserUpdate{Disabled: &disabled})
				return err
			},
			"delete": func(id string) error { return f.Identities.DeleteUser(ctx, storetest.Operator, id) },
		} {
			u := storetest.AddUser(t, f, "user-"+name, identity.Operator)
			session := storetest.BeginSession(t, f, u, name)
			if err := change(u.ID); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if _, _, err := f.Identities.FindSession(ctx, session); !fault.Is(err, fault.NotFound) {
				t.Errorf("%s: FindSession() = %v, want NotFound", name, err)
			}
		}
		if _, _, err := f.Identities.FindSession(ctx, kept); err != nil {
			t.Errorf("FindSession of another user's session: %v", err)
		}
	})
}

// If a node can no longer refresh after a reset, the reset returns an error, but must still
// have ended the sessions.
// The store decides in its transaction whether a user can be invited.
func TestInvitationNeedsEnabledUserWithPassword(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		var users []*identity.User
		for _, u := range []identity.User{{Name: "local", PasswordHash: "hash"}, {Name: "disabled", PasswordHash: "hash"}, {Name: "openid", Issuer: "https://idp.example.com", Subject: "1"}} {
			u.Role = identity.Viewer
			made, err := f.Identities.AddUser(t.Context(), storetest.Operator, u)
			if err != nil {
				t.Fatal(err)
			}
			users = append(users, made)
		}
		disabled := true
		if _, err := f.Identities.UpdateUser(t.Context(), storetest.Operator, users[1].ID, identity.UserUpdate{Disabled: &disabled}); err != nil {
			t.Fatal(err)
		}
		for i, u := range users {
			before, err := f.Identities.FindUserByID(t.Context(), u.ID)
			if err != nil {
				t.Fatal(err)
			}
			after, err := f.Identities.InviteUser(t.Context(), storetest.Operator, u.ID, "3d")
			if i == 0 && (err != nil || after.Revision <= before.Revision) {
				t.Errorf("inviting %s: %+v, %v", u.Name, after, err)
			}
			if i > 0 {
				storetest.WantFault(t, err, fault.Conflict)
				if now, err := f.Identities.FindUserByID(t.Context(), u.ID); err != nil || now.Revision != before.Revision {
					t.Errorf("%s was changed by a refused invitation: %+v, %v", u.Name, now, err)
				}
			}
		}
	})
}

func TestPasswordResetEndsSessionsWhenAfterChangeFails(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx := t.Context()
		storetest.AddToken(t, f, "root", identity.Admin)
		ann := storetest.AddUser(t, f, "ann", identity.Administrator)
		session := storetest.BeginSession(t, f, ann, "ann's")
		unable, err := sqlstore.Open(ctx, f.URL, sqlstore.Options{
			Now:         f.Clock.Now,
			AfterChange: func(context.Context) error { return fmt.Errorf("the database went away") },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer unable.Close()
		password := "$argon2id$new"
		if _, err := unable.Identities.UpdateUser(ctx, storetest.Operator, ann.ID, identity.UserUpdate{PasswordHash: &password}); !fault.Is(err, fault.Saved) {
			t.Fatalf("the reset returned %v", err)
		}
		_, _, err = f.Identities.FindSession(ctx, session)
		storetest.WantFault(t, err, fault.NotFound)
	})
}

// Logins verify the password, which is changed before they begin a session, on several nodes if
// the database supports that.
func TestLoginRacingPasswordChangeKeepsNoSession(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx := t.Context()
		storetest.AddToken(t, f, "root", identity.Admin)
		stores := []*sqlstore.Store{f.Store}
		if f.Postgres() {
			stores = append(stores, f.Another(t), f.Another(t))
		}
		const rounds, logins = 4, 24
		for round := range rounds {
			old, err := f.Identities.AddUser(ctx, storetest.Operator, identity.User{
				Name: "user" + strconv.Itoa(round), Role: identity.Administrator, PasswordHash: "$argon2id$old",
			})
			if err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			begin := make(chan struct{})
			hashes := make([][sha256.Size]byte, logins)
			for i := range logins {
				hashes[i] = sha256.Sum256(fmt.Appendf(nil, "%d %d", round, i))
				all.Go(func() {
					<-begin
					now := f.Clock.Now()
					err := stores[i%len(stores)].Identities.BeginSession(ctx, storetest.Operator, identity.Session{
						Hash: hashes[i][:], UserID: old.ID, Created: now, LastSeen: now, Expires: now.Add(time.Hour),
					}, old.PasswordHash, "")
					if err != nil && !fault.Is(err, fault.Conflict) {
						t.Errorf("a login failed: %v", err)
					}
				})
			}
			all.Go(func() {
				<-begin
				password := "$argon2id$new"
				if _, err := stores[len(stores)-1].Identities.UpdateUser(ctx, storetest.Operator, old.ID, identity.UserUpdate{PasswordHash: &password}); err != nil {
					t.Error(err)
				}
			})
			close(begin)
			all.Wait()
			for i := range hashes {
				if _, _, err := f.Identities.FindSession(ctx, hashes[i][:]); !fault.Is(err, fault.NotFound) {
					t.Errorf("round %d: login %d kept a session: %v", round, i, err)
				}
			}
		}
	})
}

func TestLoginsAndLogoutsAreAuditedAndReachCatalog(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx := t.Context()
		storetest.AddToken(t, f, "root", identity.Admin)
		ann := storetest.AddUser(t, f, "ann", identity.Administrator)
		c := catalog.New(f, f.Clock.Now)
		moved := func(what string) {
			t.Helper()
			before := c.UsersRevision()
			if err := c.Refresh(ctx); err != nil {
				t.Fatal(err)
			}
			if c.UsersRevision() <= before {
				t.Errorf("%s: the users revision of the node did not increase", what)
			}
		}
		moved("the first load")
		session := storetest.BeginSession(t, f, ann, "ann's")
		if err := c.Refresh(ctx); err != nil {
			t.Fatal(err)
		}
		if !c.KnownLogin("ann", "ip:192.0.2.1") || c.KnownLogin("ann", "ip:192.0.2.2") || c.KnownLogin("bob", "ip:192.0.2.1") {
			t.Error("KnownLogin does not match the login of ann")
		}
		for range 2 { // the second finds nothing to end
			if err := f.Identities.EndSession(ctx, storetest.Operator, session); err != nil {
				t.Fatal(err)
			}
		}
		moved("a logout")
		_, _, err := f.Identities.FindSession(ctx, session)
		storetest.WantFault(t, err, fault.NotFound)
		page, err := f.Audit.FindRecords(ctx, audit.Filter{Action: "session"})
		if err != nil || len(page.Records) != 2 || page.Records[0].Action != "session.logout" || page.Records[1].Action != "session.login" ||
			page.Records[1].ObjectID != ann.ID || page.Records[1].Actor != storetest.Operator {
			t.Fatalf("recorded %+v, %v", page.Records, err)
		}
		if err := f.Identities.DeleteUser(ctx, storetest.Operator, ann.ID); err != nil {
			t.Fatal(err)
		}
		moved("a deleted user")
		f.Clock.Advance(identity.KnownAddressFor)
		if c.KnownLogin("ann", "ip:192.0.2.1") {
			t.Errorf("an address is still known after %v", identity.KnownAddressFor)
		}
	})
}

func TestKnownAddressesAreLimitedPerUser(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx := t.Context()
		ann := storetest.AddUser(t, f, "ann", identity.Administrator)
		c := catalog.New(f, f.Clock.Now)
		const more = 5
		address := func(i int) identity.KnownAddress { return identity.KnownAddress("ip:192.0.2." + strconv.Itoa(i)) }
		for i := range identity.MaxKnownAddresses + more {
			hash := sha256.Sum256([]byte{byte(i)})
			now := f.Clock.Now()
			if err := f.Identities.BeginSession(ctx, storetest.Operator, identity.Session{
				Hash: hash[:], UserID: ann.ID, Created: now, LastSeen: now, Expires: now.Add(time.Hour),
			}, ann.PasswordHash, address(i)); err != nil {
				t.Fatal(err)
			}
			f.Clock.Advance(time.Second)
		}
		if err := c.Refresh(ctx); err != nil {
			t.Fatal(err)
		}
		for i := range identity.MaxKnownAddresses + more {
			if known := c.KnownLogin("ann", address(i)); known != (i >= more) {
				t.Errorf("address %d is known: %t, want %t", i, known, i >= more)
			}
		}
	})
}

// The limits of codes are looser for known addresses. Whoever had only the password must not
// be known to an account with two-factor authentication.
func TestEnablingTOTPForgetsOtherKnownAddresses(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx := t.Context()
		ann, bob := storetest.AddUser(t, f, "ann", identity.Administrator), storetest.AddUser(t, f, "bob", identity.Viewer)
		own, other := identity.KnownAddress("ip:"+storetest.Operator.Address), identity.KnownAddress("ip:203.0.113.9")
		for i, u := range []*identity.User{ann, bob} {
			now, hash := f.Clock.Now(), sha256.Sum256([]byte{byte(i)})
			if err := f.Identities.BeginSession(ctx, storetest.Operator, identity.Session{
				Hash: hash[:], UserID: u.ID, Created: now, LastSeen: now, Expires: now.Add(time.Hour),
			}, u.PasswordHash, own, other); err != nil {
				t.Fatal(err)
			}
		}
		c := catalog.New(f, f.Clock.Now)
		refresh := func() {
			t.Helper()
			if err := c.Refresh(ctx); err != nil {
				t.Fatal(err)
			}
		}
		refresh()
		if !c.KnownLogin("ann", own) || !c.KnownLogin("ann", other) {
			t.Fatal("the addresses of the login are not known")
		}
		storetest.SetUpTOTP(t, f.Factors, ann.ID)
		refresh()
		if !c.KnownLogin("ann", own) || c.KnownLogin("ann", other) {
			t.Error("not only the address where two-factor authentication was enabled is known")
		}
		if !c.KnownLogin("bob", other) {
			t.Error("the address of another user was forgotten")
		}
	})
}
