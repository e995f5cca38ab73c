package identities_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/storetest"
)

func TestTokensAreAddedUpdatedAndRevoked(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx, now := t.Context(), f.Clock.Now()
		storetest.AddToken(t, f, "root", identity.Admin)
		made := storetest.AddToken(t, f, "ci", identity.Check, identity.Read)
		read, err := f.Identities.FindTokenByID(ctx, made.ID)
		if err != nil || read.Name != "ci" || len(read.Hash) != 32 || len(read.Scopes) != 2 || !read.Grants(identity.Read) ||
			read.Author != "ann" || !read.Created.Equal(now) || !read.ActiveAt(now) {
			t.Fatalf("%+v, %v", read, err)
		}
		_, err = f.Identities.AddToken(ctx, storetest.Operator, storetest.NewToken("ci", identity.Check))
		storetest.WantFault(t, err, fault.Conflict)

		name, until := "ci-old", now.Add(time.Hour)
		if changed, err := f.Identities.UpdateToken(ctx, storetest.Operator, made.ID, identity.TokenUpdate{Name: &name, Expires: &until}); err != nil || changed.Name != name {
			t.Fatalf("%+v, %v", changed, err)
		}
		rotated := storetest.NewToken("ci", identity.Check)
		rotated.Hash = append([]byte{1}, rotated.Hash[1:]...)
		if _, err := f.Identities.AddToken(ctx, storetest.Operator, rotated); err != nil {
			t.Fatalf("the former name of a renamed token is not free: %v", err)
		}
		if err := f.Identities.TouchTokens(ctx, map[string]time.Time{made.ID: now.Add(time.Minute), "gone": now}); err != nil {
			t.Fatal(err)
		}
		if err := f.Identities.TouchTokens(ctx, map[string]time.Time{made.ID: now}); err != nil {
			t.Fatal(err)
		}
		revoked, err := f.Identities.RevokeToken(ctx, storetest.Operator, made.ID)
		if err != nil || !revoked.LastUsed.Equal(now.Add(time.Minute)) || revoked.ActiveAt(now) {
			t.Fatalf("%+v, %v", revoked, err)
		}
		if again, err := f.Identities.RevokeToken(ctx, storetest.Operator, made.ID); err != nil || again.Revision != revoked.Revision {
			t.Fatalf("revoking again: got %+v, %v, want the same revision", again, err)
		}
		_, err = f.Identities.UpdateToken(ctx, storetest.Operator, made.ID, identity.TokenUpdate{Name: &name, Expires: &time.Time{}})
		storetest.WantFault(t, err, fault.Conflict)
		_, err = f.Identities.FindTokenByID(ctx, "none")
		storetest.WantFault(t, err, fault.NotFound)
		if all, err := f.Identities.Tokens(ctx); err != nil || len(all) != 3 {
			t.Fatalf("%d tokens, %v", len(all), err)
		}
	})
}

func TestUsersAreAddedUpdatedAndDeleted(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx := t.Context()
		storetest.AddToken(t, f, "root", identity.Admin)
		made := storetest.AddUser(t, f, "bob", identity.Viewer)
		_, err := f.Identities.AddUser(ctx, storetest.Operator, identity.User{Name: "bob", Role: identity.Viewer})
		storetest.WantFault(t, err, fault.Conflict)
		_, err = f.Identities.FindUserByName(ctx, "eve\x00")
		storetest.WantFault(t, err, fault.NotFound)

		role, hash, disabled := identity.Operator, "$argon2id$other", true
		changed, err := f.Identities.UpdateUser(ctx, storetest.Operator, made.ID, identity.UserUpdate{Role: &role, PasswordHash: &hash, Disabled: &disabled})
		if err != nil || changed.Role != role || changed.PasswordHash != hash || changed.Disabled.IsZero() {
			t.Fatalf("%+v, %v", changed, err)
		}
		same, err := f.Identities.UpdateUser(ctx, storetest.Operator, made.ID, identity.UserUpdate{Role: &role, Disabled: &disabled})
		if err != nil || same.Revision != changed.Revision {
			t.Fatalf("an equal update: got %+v, %v, want the same revision", same, err)
		}
		enabled := false
		if changed, err = f.Identities.UpdateUser(ctx, storetest.Operator, made.ID, identity.UserUpdate{Disabled: &enabled}); err != nil {
			t.Fatal(err)
		}
		storetest.BeginSession(t, f, changed, "bob's")
		if read, err := f.Identities.FindUserByName(ctx, "bob"); err != nil || !read.LastLogin.Equal(f.Clock.Now()) {
			t.Fatalf("%+v, %v", read, err)
		}
		if err := f.Identities.DeleteUser(ctx, storetest.Operator, made.ID); err != nil {
			t.Fatal(err)
		}
		storetest.WantFault(t, f.Identities.DeleteUser(ctx, storetest.Operator, made.ID), fault.NotFound)
		if all, err := f.Identities.FindUsers(ctx, wire.UserList{}); err != nil || all.Total != 0 {
			t.Fatalf("%d users, %v", all.Total, err)
		}
	})
}

func TestListsSortNamesWithoutRegardToCase(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx := t.Context()
		for _, name := range []string{"bob", "Zoe", "ann", "Ann", "Bob-2", "eve"} {
			storetest.AddUser(t, f, name, identity.Viewer)
			storetest.AddToken(t, f, name, identity.Check)
		}
		want := []string{"Ann", "ann", "bob", "Bob-2", "eve", "Zoe"}
		for _, order := range []string{"name", "role", "last_login"} {
			var names []string
			for cursor := ""; ; { // of pages of one row
				page, err := f.Identities.FindUsers(ctx, wire.UserList{Order: order, WholeList: wire.WholeList{Limit: 1, Cursor: cursor}})
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, page.Items[0].Name)
				if cursor = page.Next; cursor == "" {
					break
				}
			}
			if !slices.Equal(names, want) {
				t.Errorf("users by %s: got %q, want %q", order, names, want)
			}
		}
		all, err := f.Identities.FindUsers(ctx, wire.UserList{})
		if err != nil || len(all.Items) != len(want) || all.Items[0].Name != "Ann" || all.Items[5].Name != "Zoe" {
			t.Errorf("got the users %v, %v, want Ann first and Zoe last", all.Items, err)
		}
		tokens, err := f.Identities.FindTokens(ctx, wire.TokenList{Order: "name"})
		var names []string
		for _, token := range tokens.Items {
			names = append(names, token.Name)
		}
		if err != nil || !slices.Equal(names, want) {
			t.Errorf("tokens by name: got %q, %v, want %q", names, err, want)
		}
	})
}

func TestStoreKeepsLastAdmin(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx, now := t.Context(), f.Clock.Now()
		viewer, disabled := identity.Viewer, true
		ann := storetest.AddUser(t, f, "ann", identity.Administrator)
		refusals := map[string]func() error{
			"demoting": func() error {
				_, err := f.Identities.UpdateUser(ctx, storetest.Operator, ann.ID, identity.UserUpdate{Role: &viewer})
				return err
			},
			"disabling": func() error {
				_, err := f.Identities.UpdateUser(ctx, storetest.Operator, ann.ID, identity.UserUpdate{Disabled: &disabled})
				return err
			},
			"deleting": func() error { return f.Identities.DeleteUser(ctx, storetest.Operator, ann.ID) },
		}
		for what, do := range refusals {
			if err := do(); !fault.Is(err, fault.Conflict) {
				t.Errorf("%s the last admin: got %v, want Conflict", what, err)
			}
		}
		if read, err := f.Identities.FindUserByID(ctx, ann.ID); err != nil || read.Role != identity.Administrator || !read.Disabled.IsZero() {
			t.Fatalf("after refused changes the user is %+v, %v", read, err)
		}
		// Tokens of other scopes and expired ones do not count.
		storetest.AddToken(t, f, "operator", identity.Operate, identity.Check)
		expiring := storetest.NewToken("expiring", identity.Admin)
		expiring.Expires = now.Add(time.Second)
		if _, err := f.Identities.AddToken(ctx, storetest.Operator, expiring); err != nil {
			t.Fatal(err)
		}
		f.Clock.Advance(time.Second)
		storetest.WantFault(t, refusals["deleting"](), fault.Conflict)

		root := storetest.AddToken(t, f, "root", identity.Admin)
		if err := refusals["deleting"](); err != nil {
			t.Fatalf("deleting the last admin user while there is an admin token: %v", err)
		}
		_, err := f.Identities.RevokeToken(ctx, storetest.Operator, root.ID)
		storetest.WantFault(t, err, fault.Conflict)
		past := f.Clock.Now()
		_, err = f.Identities.UpdateToken(ctx, storetest.Operator, root.ID, identity.TokenUpdate{Expires: &past})
		storetest.WantFault(t, err, fault.Conflict)
		storetest.AddUser(t, f, "bob", identity.Administrator)
		if _, err := f.Identities.RevokeToken(ctx, storetest.Operator, root.ID); err != nil {
			t.Fatal(err)
		}
	})
}

func TestSessionsBeginExpireAndEnd(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx, now := t.Context(), f.Clock.Now()
		storetest.AddToken(t, f, "root", identity.Admin)
		ann := storetest.AddUser(t, f, "ann", identity.Administrator)
		login := func(secret string) []byte {
			return storetest.BeginSession(t, f, ann, secret)
		}
		first, second := login("one"), login("two")
		if err := f.Identities.TouchSession(ctx, first, now.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		session, user, err := f.Identities.FindSession(ctx, first)
		if err != nil || user.ID != ann.ID || session.CSRF != "c" || session.Agent != "firefox" || !session.LastSeen.Equal(now.Add(time.Minute)) {
			t.Fatalf("%+v of %+v, %v", session, user, err)
		}
		if err := f.Identities.DeleteSession(ctx, first); err != nil {
			t.Fatal(err)
		}
		_, _, err = f.Identities.FindSession(ctx, first)
		storetest.WantFault(t, err, fault.NotFound)
		disabled, enabled := true, false
		for _, to := range []*bool{&disabled, &enabled} {
			if _, err := f.Identities.UpdateUser(ctx, storetest.Operator, ann.ID, identity.UserUpdate{Disabled: to}); err != nil {
				t.Fatal(err)
			}
		}
		_, _, err = f.Identities.FindSession(ctx, second)
		storetest.WantFault(t, err, fault.NotFound)
		third := login("three")
		f.Clock.Advance(time.Hour)
		_, _, err = f.Identities.FindSession(ctx, third)
		storetest.WantFault(t, err, fault.NotFound)
		if err := f.Identities.DeleteExpiredSessions(ctx, f.Clock.Now()); err != nil {
			t.Fatal(err)
		}
		f.Clock.Advance(-time.Hour)
		_, _, err = f.Identities.FindSession(ctx, third)
		storetest.WantFault(t, err, fault.NotFound)
		storetest.WantFault(t, f.Identities.BeginSession(ctx, storetest.Operator, identity.Session{Hash: third, UserID: "nobody"}, ann.PasswordHash), fault.Conflict)
	})
}

func TestOpenIDUserIsFoundBySubjectAndIsNotLastAdmin(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx := t.Context()
		local := storetest.AddUser(t, f, "ann", identity.Administrator)
		made, err := f.Identities.AddUser(ctx, storetest.Operator, identity.User{
			Name: "maria", Role: identity.Administrator, Issuer: "https://id.example.com", Subject: "42",
		})
		if err != nil || made.Source() != identity.OpenID || local.Source() != identity.Local {
			t.Fatalf("%+v, %v", made, err)
		}
		read, err := f.Identities.FindUserBySubject(ctx, made.Issuer, made.Subject)
		if err != nil || read.ID != made.ID || read.Issuer != made.Issuer || read.PasswordHash != "" {
			t.Fatalf("%+v, %v", read, err)
		}
		for _, other := range [][2]string{{made.Issuer, "43"}, {"https://other.example.com", "42"}, {"", ""}, {made.Issuer, "\x00"}} {
			_, err := f.Identities.FindUserBySubject(ctx, other[0], other[1])
			storetest.WantFault(t, err, fault.NotFound)
		}
		_, err = f.Identities.AddUser(ctx, storetest.Operator, identity.User{Name: "maria-2", Role: identity.Viewer, Issuer: made.Issuer, Subject: made.Subject})
		storetest.WantFault(t, err, fault.Conflict)
		hash := "$argon2id$other"
		_, err = f.Identities.UpdateUser(ctx, storetest.Operator, made.ID, identity.UserUpdate{PasswordHash: &hash})
		storetest.WantFault(t, err, fault.Conflict)
		storetest.WantFault(t, f.Identities.DeleteUser(ctx, storetest.Operator, local.ID), fault.Conflict)
		role := identity.Viewer
		if changed, err := f.Identities.UpdateUser(ctx, storetest.Operator, made.ID, identity.UserUpdate{Role: &role}); err != nil || changed.Role != role {
			t.Fatalf("%+v, %v", changed, err)
		}
		if err := f.Identities.DeleteUser(ctx, storetest.Operator, made.ID); err != nil {
			t.Fatal(err)
		}
	})
}
