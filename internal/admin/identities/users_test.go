package identities_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/admin/identities"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

const password = "correct horse battery"

func (f *fixture) users() *identities.Users { return &identities.Users{Store: f.store.Identities} }

// sessions returns the sessions of this node. Each call has its own cache.
func (f *fixture) sessions() *identities.Sessions {
	return identities.NewSessions(identities.SessionOptions{
		Store: f.store.Identities, Pending: f.store.Factors, UsersRevision: f.catalog.UsersRevision, IdleTimeout: time.Hour, Lifetime: 24 * time.Hour,
		Now: func() time.Time { return f.now },
	})
}

func (f *fixture) addUser(t *testing.T, name, role string) *identity.User {
	t.Helper()
	made, err := f.users().Create(t.Context(), ann, wire.UserRequest{Name: name, Role: role, Password: password})
	if err != nil {
		t.Fatal(err)
	}
	u, err := f.store.Identities.FindUserByID(t.Context(), made.ID)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestUserFaultsNameTheField(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		users := f.users()
		bob := f.addUser(t, "bob", "viewer")
		for field, r := range map[string]wire.UserRequest{
			"name":     {Name: "-bob", Role: "viewer", Password: password},
			"role":     {Name: "eve", Role: "owner", Password: password},
			"password": {Name: "eve", Role: "viewer", Password: "short"},
		} {
			if _, err := users.Create(t.Context(), ann, r); !isField(err, field) {
				t.Errorf("got %v, want the field %s", err, field)
			}
		}
		_, err := users.Create(t.Context(), ann, wire.UserRequest{Name: "bob", Role: "viewer", Password: password})
		if !fault.Is(err, fault.Conflict) || !isField(err, "name") {
			t.Errorf("Create with a name in use: got %v, want Conflict of the field name", err)
		}
		if _, err := users.Update(t.Context(), ann, wire.UserPatch{ID: bob.ID}); !fault.Is(err, fault.Invalid) {
			t.Errorf("Update without changes: got %v, want Invalid", err)
		}
		if _, err := users.Update(t.Context(), ann, wire.UserPatch{ID: bob.ID, Role: wire.To("owner")}); !isField(err, "role") {
			t.Errorf("Update with an unknown role: got %v, want the field role", err)
		}
		if _, err := users.SetPassword(t.Context(), ann, wire.PasswordRequest{ID: bob.ID, Password: "short"}); !isField(err, "password") {
			t.Errorf("SetPassword with a short password: got %v, want the field password", err)
		}
	})
}

func TestUserChangeEndsTheSessionsOnEveryNode(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		users := f.users()
		f.addUser(t, "root", "admin")
		for what, change := range map[string]func(id string) error{
			"role": func(id string) error {
				_, err := users.Update(t.Context(), ann, wire.UserPatch{ID: id, Role: wire.To("operator")})
				return err
			},
			"disabled": func(id string) error {
				_, err := users.Update(t.Context(), ann, wire.UserPatch{ID: id, Disabled: wire.To(true)})
				return err
			},
			"password": func(id string) error {
				_, err := users.SetPassword(t.Context(), ann, wire.PasswordRequest{ID: id, Password: password + "!"})
				return err
			},
			"deleted": func(id string) error {
				_, err := users.Delete(t.Context(), ann, wire.ByID{ID: id})
				return err
			},
		} {
			u := f.addUser(t, "bob-"+what, "viewer")
			one, other := f.sessions(), f.sessions()
			secret, err := one.Begin(t.Context(), u, ann.Address, "firefox")
			if err != nil {
				t.Fatal(err)
			}
			hash := identity.HashSecret(secret)
			for _, s := range []*identities.Sessions{one, other} {
				if l, err := s.Find(t.Context(), hash); err != nil || l == nil || l.User.ID != u.ID {
					t.Fatalf("%s: found %+v, %v", what, l, err)
				}
			}
			if err := change(u.ID); err != nil {
				t.Fatal(err)
			}
			for _, s := range []*identities.Sessions{one, other} {
				if l, err := s.Find(t.Context(), hash); err != nil || l != nil {
					t.Errorf("%s: after the change Find returns %+v, %v; want nil", what, l, err)
				}
				if active, err := s.IsActive(t.Context(), hash, u.Role, false); err != nil || active {
					t.Errorf("%s: still active, %v", what, err)
				}
			}
			// A login that verified the former password must not begin a session.
			if _, err := one.Begin(t.Context(), u, ann.Address, "firefox"); what != "role" && !fault.Is(err, fault.Conflict) {
				t.Errorf("%s: Begin with the former user: got %v, want Conflict", what, err)
			}
		}
	})
}

// loggedIn returns sessions with one of the user bob, and its hash.
func (f *fixture) loggedIn(t *testing.T) (*identities.Sessions, [32]byte) {
	t.Helper()
	s := f.sessions()
	secret, err := s.Begin(t.Context(), f.addUser(t, "bob", "viewer"), ann.Address, "firefox")
	if err != nil {
		t.Fatal(err)
	}
	return s, identity.HashSecret(secret)
}

func TestSessionIsCachedWhileTheDatabaseIsUnreachable(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		s, hash := f.loggedIn(t)
		if l, err := s.Find(t.Context(), hash); err != nil || l == nil {
			t.Fatalf("found %+v, %v", l, err)
		}
		if err := f.store.Close(); err != nil {
			t.Fatal(err)
		}
		if l, err := s.Find(t.Context(), hash); err != nil || l == nil || l.User.Name != "bob" {
			t.Errorf("Find without the database: got %+v, %v; want the cached session", l, err)
		}
		if l, err := f.sessions().Find(t.Context(), hash); err == nil || l != nil {
			t.Errorf("Find without the database on another node: got %+v, %v; want an error", l, err)
		}
		f.now = f.now.Add(time.Hour)
		if l, err := s.Find(t.Context(), hash); err == nil || l != nil {
			t.Errorf("after the idle timeout it found %+v, %v", l, err)
		}
	})
}

// readOnly is a store that refuses writes.
type readOnly struct {
	identities.SessionStore
	touched int
}

func (s *readOnly) TouchSession(context.Context, []byte, time.Time) error {
	s.touched++
	return fault.New(fault.Unavailable, "The database cannot be written.")
}

func (s *readOnly) DeleteSession(context.Context, []byte) error {
	return fault.New(fault.Unavailable, "The database cannot be written.")
}

func TestSessionContinuesWhileTheDatabaseRefusesWrites(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		s, hash := f.loggedIn(t)
		store := &readOnly{SessionStore: s.Store}
		var log strings.Builder
		s.Store, s.Log = store, slog.New(slog.NewTextHandler(&log, nil))
		for range 3 { // beyond the idle timeout in all
			f.now = f.now.Add(50 * time.Minute)
			for range 2 {
				if l, err := s.Find(t.Context(), hash); err != nil || l == nil || !l.Session.LastSeen.Equal(f.now) {
					t.Fatalf("found %+v, %v", l, err)
				}
			}
		}
		if store.touched != 3 {
			t.Errorf("TouchSession was called %d times, want 3: once every 50 minutes", store.touched)
		}
		if got := log.String(); strings.Count(got, "level=WARN") != 3 || !strings.Contains(got, "user=bob") || !strings.Contains(got, "cannot be written") {
			t.Errorf("logged %s", got)
		}
		f.now = f.now.Add(time.Hour)
		if l, err := s.Find(t.Context(), hash); err != nil || l != nil {
			t.Errorf("after the idle timeout it found %+v, %v", l, err)
		}
	})
}

func TestOpenIDUserHasNoPasswordAndNoLocalRole(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.addUser(t, "root", "admin")
		u, err := f.store.Identities.AddUser(t.Context(), ann.Actor, identity.User{Name: "kim", Role: identity.Viewer, Issuer: "https://id.example.com", Subject: "1"})
		if err != nil {
			t.Fatal(err)
		}
		users := f.users()
		if _, err := users.SetPassword(t.Context(), ann, wire.PasswordRequest{ID: u.ID, Password: password}); !fault.Is(err, fault.Conflict) || !isField(err, "password") {
			t.Errorf("SetPassword: got %v, want Conflict of the field password", err)
		}
		if _, err := users.Update(t.Context(), ann, wire.UserPatch{ID: u.ID, Role: wire.To("admin"), Disabled: wire.To(true)}); !fault.Is(err, fault.Conflict) || !isField(err, "role") {
			t.Errorf("Update of the role: got %v, want Conflict of the field role", err)
		}
		if changed, err := users.Update(t.Context(), ann, wire.UserPatch{ID: u.ID, Disabled: wire.To(true)}); err != nil || !changed.Disabled || changed.Role != "viewer" {
			t.Errorf("Update to disable: got %+v, %v", changed, err)
		}
	})
}
