package local

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/storetest"
)

func TestMain(m *testing.M) { servers.Main(m) }

// recoverAs runs recover-admin on a database while the store is open, and returns
// its output.
func recoverAs(t *testing.T, f *storetest.Fixture, name, password string) string {
	t.Helper()
	printed, err := tryRecover(t, f, name, password)
	if err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	return printed
}

// tryRecover is recoverAs, and returns the error too.
func tryRecover(t *testing.T, f *storetest.Fixture, name, password string) (string, error) {
	t.Helper()
	stdin, typed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	if _, err := io.WriteString(typed, password+"\n"); err != nil {
		t.Fatal(err)
	}
	typed.Close()
	reader, stderr, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	con := &console.Console{System: console.System{
		Name: "admin", Stdin: stdin, Stdout: stderr, Stderr: stderr, Now: f.Clock.Now,
		Getenv: func(variable string) string { return map[string]string{"STINT_DATABASE_URL": f.URL}[variable] },
	}}
	c := NewRecoverAdmin(con)
	c.SetArgs([]string{"--user", name})
	err = c.ExecuteContext(t.Context())
	stderr.Close()
	text := &bytes.Buffer{}
	if _, copied := io.Copy(text, reader); copied != nil {
		t.Fatal(copied)
	}
	return text.String(), err
}

func TestRecoverAdminRejectsInvalidNames(t *testing.T) {
	f := storetest.OpenSQLite(t)
	const password = "a recovered password"
	for _, name := range []string{"", " maria", "maria smith", "ma\x1bria", "m\u00e4ria", strings.Repeat("m", 65)} {
		var usage *console.ExitError
		printed, err := tryRecover(t, f, name, password)
		if !errors.As(err, &usage) || usage.Code != console.Usage || !strings.HasPrefix(err.Error(), "--user") || printed != "" {
			t.Errorf("--user %q: got %v and the output %q, want a usage error", name, err, printed)
		}
	}
	users, err := f.Identities.FindUsers(t.Context(), wire.UserList{})
	if err != nil || users.Total != 0 {
		t.Errorf("after refused names there are the users %v, %v", users.Items, err)
	}
	if tokens, err := f.Identities.Tokens(t.Context()); err != nil || len(tokens) != 0 {
		t.Errorf("after refused names there are the tokens %v, %v", tokens, err)
	}
	// A user who exists can be recovered, whatever the name is.
	storetest.AddUser(t, f, "maria smith", identity.Viewer)
	recoverAs(t, f, "maria smith", password)
}

func TestRecoverAdminCompletesTheFirstStart(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		if awaits, err := f.AwaitsFirstStart(t.Context()); err != nil || !awaits {
			t.Fatalf("a new database awaits its first start: %v, %v", awaits, err)
		}
		recoverAs(t, f, "admin", "a recovered password")
		if awaits, err := f.AwaitsFirstStart(t.Context()); err != nil || awaits {
			t.Errorf("after the recovery the first start is awaited: %v, %v", awaits, err)
		}
	})
}

func TestRecoverAdminRemovesTheSecondFactorAndSessions(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx := t.Context()
		maria := storetest.AddUser(t, f, "maria", identity.Viewer)
		storetest.SetUpTOTP(t, f.Factors, maria.ID)
		session, finished, pending := identity.HashSecret("earlier"), identity.HashSecret("finished"), identity.HashSecret("awaits its code")
		for _, hash := range [][]byte{finished[:], pending[:]} {
			if err := f.Factors.AddPendingLogin(ctx, storetest.Operator, identity.PendingLogin{Hash: hash, UserID: maria.ID}, maria.PasswordHash); err != nil {
				t.Fatal(err)
			}
		}
		now := f.Clock.Now()
		if err := f.Factors.BeginSessionWithCode(ctx, storetest.Operator, identity.Session{
			Hash: session[:], UserID: maria.ID, Created: now, LastSeen: now, Expires: now.Add(time.Hour),
		}, finished[:], identity.SecondFactor{Step: 1}, maria); err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.Identities.FindSession(ctx, session[:]); err != nil {
			t.Fatal(err)
		}
		off := true
		if _, err := f.Identities.UpdateUser(ctx, storetest.Operator, storetest.AddUser(t, f, "olu", identity.Operator).ID, identity.UserUpdate{Disabled: &off}); err != nil {
			t.Fatal(err)
		}
		const password = "a recovered password"
		printed := recoverAs(t, f, "maria", password)
		for _, want := range []string{"maria is now an enabled admin", "All sessions of the user are ended.", "Two-factor authentication of the user is removed"} {
			if !strings.Contains(printed, want) {
				t.Errorf("recover-admin does not print %q: %s", want, printed)
			}
		}
		if strings.Contains(printed, password) {
			t.Errorf("recover-admin prints the password: %s", printed)
		}
		u, err := f.Identities.FindUserByName(ctx, "maria")
		if err != nil || u.Role != identity.Administrator || !u.TOTPSince.IsZero() || !identity.VerifyPassword(u.PasswordHash, password) {
			t.Fatalf("recovered %+v, %v", u, err)
		}
		if factor, err := f.Factors.FindTOTP(ctx, u.ID); err != nil || factor != nil {
			t.Errorf("the second factor still exists: %+v, %v", factor, err)
		}
		_, _, err = f.Identities.FindSession(ctx, session[:])
		storetest.WantFault(t, err, fault.NotFound)
		_, err = f.Factors.FindPendingLogin(ctx, pending[:])
		storetest.WantFault(t, err, fault.NotFound)
		var left int
		if err := f.Raw(t).QueryRowContext(ctx, "SELECT count(*) FROM recovery_codes").Scan(&left); err != nil || left != 0 {
			t.Errorf("%d recovery codes still exist, %v", left, err)
		}
		entry := storetest.NewestRecord(t, f)
		if entry.Actor.Name != "recover-admin" || !strings.Contains(entry.Summary, "no two-factor authentication") {
			t.Errorf("the newest audit record is %+v", entry)
		}
		// The password alone begins a session now.
		storetest.BeginSession(t, f, u, "later")

		// For a user without a second factor it mentions none. A disabled user is enabled.
		if printed := recoverAs(t, f, "olu", password); strings.Contains(printed, "Two-factor") || !strings.Contains(printed, "All sessions") {
			t.Errorf("for a user without a second factor it prints %s", printed)
		}
		if olu, err := f.Identities.FindUserByName(ctx, "olu"); err != nil || !olu.Disabled.IsZero() || olu.Role != identity.Administrator {
			t.Errorf("recovered %+v, %v", olu, err)
		}
		if printed := recoverAs(t, f, "new", password); strings.Contains(printed, "sessions") || !strings.Contains(printed, "new is now an enabled admin") {
			t.Errorf("for a new user it prints %s", printed)
		}
	})
}
