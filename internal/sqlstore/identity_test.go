package sqlstore_test

import (
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
)

func newToken(name string, scopes ...identity.Access) identity.Token {
	hash := sha256.Sum256([]byte("secret of " + name))
	return identity.Token{Name: name, Hint: "stint_ab", Hash: hash[:], Scopes: scopes}
}

func addToken(t testing.TB, f *fixture, name string, scopes ...identity.Access) *identity.Token {
	t.Helper()
	token, err := f.AddToken(t.Context(), operator, newToken(name, scopes...))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func addUser(t testing.TB, f *fixture, name string, role identity.Role) *identity.User {
	t.Helper()
	u, err := f.AddUser(t.Context(), operator, identity.User{Name: name, Role: role, PasswordHash: "$argon2id$secret"})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// beginSession logs a user in and returns the hash of the session.
func beginSession(t testing.TB, f *fixture, u *identity.User, secret string) []byte {
	t.Helper()
	hash := sha256.Sum256([]byte(secret))
	now := f.clock.Now()
	err := f.BeginSession(t.Context(), operator, identity.Session{
		Hash: hash[:], UserID: u.ID, CSRF: "c", Created: now, LastSeen: now, Expires: now.Add(time.Hour), Address: "192.0.2.1", Agent: "firefox",
	}, u.PasswordHash, "ip:192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	return hash[:]
}

func TestTokens_live_from_adding_to_revoking(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		ctx, now := t.Context(), f.clock.Now()
		addToken(t, f, "root", identity.Admin)
		made := addToken(t, f, "ci", identity.Check, identity.Read)
		read, err := f.FindTokenByID(ctx, made.ID)
		if err != nil || read.Name != "ci" || len(read.Hash) != 32 || len(read.Scopes) != 2 || !read.Grants(identity.Read) ||
			read.Author != "ann" || !read.Created.Equal(now) || !read.ActiveAt(now) {
			t.Fatalf("%+v, %v", read, err)
		}
		_, err = f.AddToken(ctx, operator, newToken("ci", identity.Check))
		wants(t, err, fault.Conflict)
		_, err = f.AddToken(ctx, operator, newToken("", identity.Check))
		wants(t, err, fault.Invalid)

		name, until := "ci-old", now.Add(time.Hour)
		if changed, err := f.UpdateToken(ctx, operator, made.ID, identity.TokenUpdate{Name: &name, Expires: &until}); err != nil || changed.Name != name {
			t.Fatalf("%+v, %v", changed, err)
		}
		rotated := newToken("ci", identity.Check)
		rotated.Hash = append([]byte{1}, rotated.Hash[1:]...)
		if _, err := f.AddToken(ctx, operator, rotated); err != nil {
			t.Fatalf("a renamed token's name is not free: %v", err)
		}
		if err := f.TouchTokens(ctx, map[string]time.Time{made.ID: now.Add(time.Minute), "gone": now}); err != nil {
			t.Fatal(err)
		}
		if err := f.TouchTokens(ctx, map[string]time.Time{made.ID: now}); err != nil {
			t.Fatal(err)
		}
		revoked, err := f.RevokeToken(ctx, operator, made.ID)
		if err != nil || !revoked.LastUsed.Equal(now.Add(time.Minute)) || revoked.ActiveAt(now) {
			t.Fatalf("%+v, %v", revoked, err)
		}
		if again, err := f.RevokeToken(ctx, operator, made.ID); err != nil || again.Revision != revoked.Revision {
			t.Fatalf("revoking again gave %+v, %v", again, err)
		}
		_, err = f.UpdateToken(ctx, operator, made.ID, identity.TokenUpdate{Name: &name, Expires: &time.Time{}})
		wants(t, err, fault.Conflict)
		_, err = f.FindTokenByID(ctx, "none")
		wants(t, err, fault.NotFound)
		if all, err := f.Tokens(ctx); err != nil || len(all) != 3 {
			t.Fatalf("%d tokens, %v", len(all), err)
		}
	})
}

func TestUsers_live_from_adding_to_deleting(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		addToken(t, f, "root", identity.Admin)
		made := addUser(t, f, "bob", identity.Viewer)
		_, err := f.AddUser(ctx, operator, identity.User{Name: "bob", Role: identity.Viewer})
		wants(t, err, fault.Conflict)
		_, err = f.AddUser(ctx, operator, identity.User{Name: "eve", Role: "owner"})
		wants(t, err, fault.Invalid)
		_, err = f.FindUserByName(ctx, "eve\x00")
		wants(t, err, fault.NotFound)

		role, hash, disabled := identity.Operator, "$argon2id$other", true
		changed, err := f.UpdateUser(ctx, operator, made.ID, identity.UserUpdate{Role: &role, PasswordHash: &hash, Disabled: &disabled})
		if err != nil || changed.Role != role || changed.PasswordHash != hash || changed.Disabled.IsZero() {
			t.Fatalf("%+v, %v", changed, err)
		}
		same, err := f.UpdateUser(ctx, operator, made.ID, identity.UserUpdate{Role: &role, Disabled: &disabled})
		if err != nil || same.Revision != changed.Revision {
			t.Fatalf("an equal update gave %+v, %v", same, err)
		}
		enabled := false
		if changed, err = f.UpdateUser(ctx, operator, made.ID, identity.UserUpdate{Disabled: &enabled}); err != nil {
			t.Fatal(err)
		}
		beginSession(t, f, changed, "bob's")
		if read, err := f.FindUserByName(ctx, "bob"); err != nil || !read.LastLogin.Equal(f.clock.Now()) {
			t.Fatalf("%+v, %v", read, err)
		}
		if err := f.DeleteUser(ctx, operator, made.ID); err != nil {
			t.Fatal(err)
		}
		wants(t, f.DeleteUser(ctx, operator, made.ID), fault.NotFound)
		if all, err := f.Users(ctx); err != nil || len(all) != 0 {
			t.Fatalf("%d users, %v", len(all), err)
		}
	})
}

func TestStore_keeps_the_last_admin(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		ctx, now := t.Context(), f.clock.Now()
		viewer, disabled := identity.Viewer, true
		ann := addUser(t, f, "ann", identity.Administrator)
		refusals := map[string]func() error{
			"demoting": func() error {
				_, err := f.UpdateUser(ctx, operator, ann.ID, identity.UserUpdate{Role: &viewer})
				return err
			},
			"disabling": func() error {
				_, err := f.UpdateUser(ctx, operator, ann.ID, identity.UserUpdate{Disabled: &disabled})
				return err
			},
			"deleting": func() error { return f.DeleteUser(ctx, operator, ann.ID) },
		}
		for what, do := range refusals {
			if err := do(); !fault.Is(err, fault.Conflict) {
				t.Errorf("%s the last admin gave %v", what, err)
			}
		}
		if read, err := f.FindUserByID(ctx, ann.ID); err != nil || read.Role != identity.Administrator || !read.Disabled.IsZero() {
			t.Fatalf("a refused change left %+v, %v", read, err)
		}
		// Tokens of other scopes and expired ones do not count.
		addToken(t, f, "operator", identity.Operate, identity.Check)
		expiring := newToken("expiring", identity.Admin)
		expiring.Expires = now.Add(time.Second)
		if _, err := f.AddToken(ctx, operator, expiring); err != nil {
			t.Fatal(err)
		}
		f.clock.Advance(time.Second)
		wants(t, refusals["deleting"](), fault.Conflict)

		root := addToken(t, f, "root", identity.Admin)
		if err := refusals["deleting"](); err != nil {
			t.Fatalf("with an admin token the user may go: %v", err)
		}
		_, err := f.RevokeToken(ctx, operator, root.ID)
		wants(t, err, fault.Conflict)
		past := f.clock.Now()
		_, err = f.UpdateToken(ctx, operator, root.ID, identity.TokenUpdate{Expires: &past})
		wants(t, err, fault.Conflict)
		addUser(t, f, "bob", identity.Administrator)
		if _, err := f.RevokeToken(ctx, operator, root.ID); err != nil {
			t.Fatal(err)
		}
	})
}

func TestSessions_live_from_login_to_logout(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		ctx, now := t.Context(), f.clock.Now()
		addToken(t, f, "root", identity.Admin)
		ann := addUser(t, f, "ann", identity.Administrator)
		login := func(secret string) []byte {
			return beginSession(t, f, ann, secret)
		}
		first, second := login("one"), login("two")
		if err := f.TouchSession(ctx, first, now.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		session, user, err := f.FindSession(ctx, first)
		if err != nil || user.ID != ann.ID || session.CSRF != "c" || session.Agent != "firefox" || !session.LastSeen.Equal(now.Add(time.Minute)) {
			t.Fatalf("%+v of %+v, %v", session, user, err)
		}
		if err := f.DeleteSession(ctx, first); err != nil {
			t.Fatal(err)
		}
		_, _, err = f.FindSession(ctx, first)
		wants(t, err, fault.NotFound)
		disabled, enabled := true, false
		for _, to := range []*bool{&disabled, &enabled} {
			if _, err := f.UpdateUser(ctx, operator, ann.ID, identity.UserUpdate{Disabled: to}); err != nil {
				t.Fatal(err)
			}
		}
		_, _, err = f.FindSession(ctx, second)
		wants(t, err, fault.NotFound)
		third := login("three")
		f.clock.Advance(time.Hour)
		_, _, err = f.FindSession(ctx, third)
		wants(t, err, fault.NotFound)
		if err := f.DeleteExpiredSessions(ctx, f.clock.Now()); err != nil {
			t.Fatal(err)
		}
		f.clock.Advance(-time.Hour)
		_, _, err = f.FindSession(ctx, third)
		wants(t, err, fault.NotFound)
		wants(t, f.BeginSession(ctx, operator, identity.Session{Hash: third, UserID: "nobody"}, ann.PasswordHash, ""), fault.Conflict)
	})
}

func TestAudit_records_every_change_with_its_maker_and_no_secret(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		token := addToken(t, f, "root", identity.Admin)
		ann := addUser(t, f, "ann", identity.Administrator)
		hash := "$argon2id$other"
		if _, err := f.UpdateUser(ctx, operator, ann.ID, identity.UserUpdate{PasswordHash: &hash}); err != nil {
			t.Fatal(err)
		}
		put(t, f, policy(t, "default", "*", "5/s"), 1)
		page, err := f.FindRecords(ctx, audit.Filter{Limit: 2})
		if err != nil || len(page.Records) != 2 || page.Next == "" {
			t.Fatalf("%+v, %v", page, err)
		}
		newest := page.Records[0]
		if newest.Action != "policy.replace" || newest.Actor != operator || newest.Object != "policy" || newest.ObjectID != "default" ||
			!newest.At.Equal(f.clock.Now()) || newest.Revision != 5 ||
			!strings.Contains(string(newest.Before), `"800/1d"`) || !strings.Contains(string(newest.After), `"rules":["5/1s"]`) {
			t.Fatalf("entry %+v", newest)
		}
		if read, err := f.FindRecordByID(ctx, newest.ID); err != nil || read.Summary != newest.Summary {
			t.Fatalf("%+v, %v", read, err)
		}
		_, err = f.FindRecordByID(ctx, newest.ID+1)
		wants(t, err, fault.NotFound)
		var actions []string
		for e, err := range f.EachRecord(ctx, audit.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			actions = append(actions, e.Action)
			for _, text := range []string{string(e.Before), string(e.After), e.Summary} {
				if strings.Contains(text, "argon2id") || strings.Contains(text, string(token.Hash)) || strings.Contains(text, "hash") {
					t.Errorf("the entry %s holds a secret: %s", e.Action, text)
				}
			}
		}
		if got, want := strings.Join(actions, " "), "policy.replace user.update user.add token.add policy.create"; got != want {
			t.Fatalf("recorded %s, want %s", got, want)
		}
	})
}

func TestFindEntries_filters(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		start := f.clock.Now()
		f.clock.Advance(time.Minute)
		addToken(t, f, "root", identity.Admin)
		f.clock.Advance(time.Minute)
		ann := addUser(t, f, "Ann", identity.Administrator)
		for name, test := range map[string]struct {
			filter audit.Filter
			want   int
		}{
			"from is inclusive and to is not": {audit.Filter{From: start, To: start.Add(time.Minute)}, 1},
			"by actor":                        {audit.Filter{Actor: "ann"}, 2},
			"by action":                       {audit.Filter{Action: "user.add"}, 1},
			"by the part before the dot":      {audit.Filter{Action: "token"}, 1},
			"not by a part of a word":         {audit.Filter{Action: "tok"}, 0},
			"by object and id":                {audit.Filter{Object: "user", ObjectID: ann.ID}, 1},
			"by text without case":            {audit.Filter{Search: "USER \"ann\""}, 1},
		} {
			page, err := f.FindRecords(t.Context(), test.filter)
			if err != nil || len(page.Records) != test.want {
				t.Errorf("%s: %d entries, %v; want %d", name, len(page.Records), err, test.want)
			}
		}
		for _, filter := range []audit.Filter{{Cursor: "-1"}, {Cursor: "!"}, {Limit: 5000}, {Search: "\x00"}} {
			_, err := f.FindRecords(t.Context(), filter)
			wants(t, err, fault.Invalid)
		}
		removed, err := f.DeleteEntriesBefore(t.Context(), start.Add(time.Minute))
		if err != nil || removed != 1 {
			t.Fatalf("retention removed %d, %v", removed, err)
		}
	})
}
