package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/test/servers"
)

func openStore(t *testing.T) *sqlstore.Store {
	t.Helper()
	store, err := sqlstore.Open(t.Context(), filepath.Join(t.TempDir(), "stint.db"), sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// isAdminToken reports whether a token is active and grants everything.
func isAdminToken(t *testing.T, store *sqlstore.Store, text string) bool {
	t.Helper()
	known := catalog.New(store, time.Now)
	if err := known.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	token, found := known.TokenByHash(identity.HashSecret(text))
	return found && token.ActiveAt(time.Now()) && token.Grants(identity.Admin)
}

func TestFirstStartAddsConfiguredTokens(t *testing.T) {
	store := openStore(t)
	var out strings.Builder
	if err := (&firstStart{out: &out}).run(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	for _, chosen := range []string{"chosen-by-the-operator", "chosen-another-time"} {
		for range 2 { // the second start finds the token
			f := &firstStart{out: &out, token: chosen, printed: true}
			if err := f.run(t.Context(), store); err != nil {
				t.Fatal(err)
			}
		}
		if !isAdminToken(t, store, chosen) {
			t.Errorf("the token %s of STINT_ADMIN_TOKEN is not accepted", chosen)
		}
	}
	tokens, err := store.Identities.Tokens(t.Context())
	if err != nil || len(tokens) != 3 {
		t.Errorf("got %d tokens, %v; want the first and the two configured ones", len(tokens), err)
	}
}

// TestFirstStartDoesNotReviveEndedTokens starts nodes again with their configured tokens, long
// after those were revoked.
func TestFirstStartDoesNotReviveEndedTokens(t *testing.T) {
	store, ctx := openStore(t), t.Context()
	start := func(token string) {
		t.Helper()
		if err := (&firstStart{out: io.Discard, token: token, printed: token != ""}).run(ctx, store); err != nil {
			t.Fatal(err)
		}
	}
	start("")
	backup := filepath.Join(t.TempDir(), "backup.db")
	if err := store.Backup(ctx, backup); err != nil {
		t.Fatal(err)
	}
	const revoked, expired = "chosen-and-revoked", "chosen-and-expired"
	start(revoked)
	start(expired)
	tokens, err := store.Identities.Tokens(ctx)
	if err != nil {
		t.Fatal(err)
	}
	by := audit.SystemActor("a test")
	past := time.Now().Add(-time.Minute)
	for _, token := range tokens {
		switch [32]byte(token.Hash) {
		case identity.HashSecret(revoked):
			_, err = store.Identities.RevokeToken(ctx, by, token.ID)
		case identity.HashSecret(expired):
			_, err = store.Identities.UpdateToken(ctx, by, token.ID, identity.TokenUpdate{Expires: &past})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for what, pass := range map[string]func() error{
		"after retention": func() error {
			_, err := store.Retention.DeleteTokensBefore(ctx, time.Now().Add(time.Hour))
			return err
		},
		"after an older backup was restored": func() error { return store.Restore(ctx, by, backup) },
	} {
		if err := pass(); err != nil {
			t.Fatal(err)
		}
		for _, token := range []string{revoked, expired} {
			if start(token); isAdminToken(t, store, token) {
				t.Errorf("%s: the token %s is accepted again", what, token)
			}
		}
	}
}

func TestRepeatedFirstStartPrintsValidCredentials(t *testing.T) {
	store := openStore(t)
	var out strings.Builder
	f := &firstStart{out: &out, generated: newCredentials("")}
	// The previous attempt created the user, but its response was lost.
	user := identity.User{Name: adminName, Role: identity.Administrator, PasswordHash: f.generated.passwordHash}
	if _, err := store.Identities.AddUser(t.Context(), audit.SystemActor("a test"), user); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the start may also fail after the credentials
		if err := f.run(t.Context(), store); err != nil {
			t.Fatal(err)
		}
	}
	printed := out.String()
	if strings.Count(printed, f.generated.password) != 1 || !strings.Contains(printed, f.generated.token.Text) {
		t.Errorf("got the output\n%s\nwant the password once, and the token", printed)
	}
	if !isAdminToken(t, store, f.generated.token.Text) {
		t.Error("the printed token is not accepted")
	}
}

// Credentials that nobody saw are replaced by the next start.
func TestFirstStartThatCannotPrintIsRepeated(t *testing.T) {
	store := openStore(t)
	full, err := os.Open(os.DevNull) // for reading only
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	if err := (&firstStart{out: full}).run(t.Context(), store); err == nil {
		t.Error("a first start that cannot print: got no error")
	}
	var out strings.Builder
	again := &firstStart{out: &out}
	if err := again.run(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "the password  "+again.generated.password) || !isAdminToken(t, store, again.generated.token.Text) {
		t.Errorf("the second start printed %q, want a password and a token that works", out.String())
	}
}

func TestKilledFirstStartIsRepeated(t *testing.T) {
	by := audit.SystemActor(identity.BootstrapAuthor)
	lost := newCredentials("")
	addUser := func(store *sqlstore.Store) error {
		_, err := store.Identities.AddUser(t.Context(), by, identity.User{Name: adminName, Role: identity.Administrator, PasswordHash: lost.passwordHash})
		return err
	}
	for name, done := range map[string]func(store *sqlstore.Store) error{
		"before the user": func(*sqlstore.Store) error { return nil },
		"after the user":  addUser,
		"after the token": func(store *sqlstore.Store) error {
			return errors.Join(addUser(store), addToken(t.Context(), store, by, lost.token))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "stint.db")
			open := func() *sqlstore.Store {
				store, err := sqlstore.Open(t.Context(), path, sqlstore.Options{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { store.Close() })
				return store
			}
			killed := open()
			if err := done(killed); err != nil {
				t.Fatal(err)
			}
			killed.Close()
			var out, later strings.Builder
			again := firstStart{out: &out}
			for _, f := range []*firstStart{&again, {out: &later}} {
				if err := f.run(t.Context(), open()); err != nil {
					t.Fatal(err)
				}
			}
			if later.String() != "" {
				t.Errorf("a later start printed %q, want nothing", &later)
			}
			store := open()
			user, err := store.Identities.FindUserByName(t.Context(), adminName)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), again.generated.password) || !identity.VerifyPassword(user.PasswordHash, again.generated.password) {
				t.Errorf("the printed password is not accepted:\n%s", &out)
			}
			if !strings.Contains(out.String(), again.generated.token.Text) || !isAdminToken(t, store, again.generated.token.Text) {
				t.Errorf("the printed token is not accepted:\n%s", &out)
			}
		})
	}
}

func TestFirstStartOnPostgresRunsOnOneNodeAndIsRepeatedAfterKill(t *testing.T) {
	server := servers.Postgres(t)
	open := func() *sqlstore.Store {
		store, err := sqlstore.Open(t.Context(), server.URL, sqlstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		return store
	}
	first, second := open(), open()
	var beside, after strings.Builder
	killed := errors.New("killed")
	err := first.FirstStart(t.Context(), func() error {
		if err := (&firstStart{out: io.Discard}).create(t.Context(), first, audit.SystemActor("a test")); err != nil {
			return err
		}
		if err := (&firstStart{out: &beside}).run(t.Context(), second); err != nil {
			return err
		}
		return killed // the transaction with the lock ends
	})
	if !errors.Is(err, killed) || beside.Len() > 0 {
		t.Fatalf("got %v, and the second node printed %q", err, &beside)
	}
	again := &firstStart{out: &after}
	if err := again.run(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	user, err := second.Identities.FindUserByName(t.Context(), adminName)
	if err != nil || !strings.Contains(after.String(), again.generated.password) || !identity.VerifyPassword(user.PasswordHash, again.generated.password) {
		t.Errorf("the second node printed %q, want a password that is accepted; %v", &after, err)
	}
	if !isAdminToken(t, second, again.generated.token.Text) {
		t.Error("the printed token is not accepted")
	}
}

func TestFirstStartSetsConfiguredPasswordWithoutPrinting(t *testing.T) {
	store := openStore(t)
	var out strings.Builder
	const chosen = "chosen by the operator"
	for _, password := range []string{chosen, "another one afterwards"} {
		f := &firstStart{out: &out, password: password}
		if err := f.run(t.Context(), store); err != nil {
			t.Fatal(err)
		}
	}
	user, err := store.Identities.FindUserByName(t.Context(), adminName)
	if err != nil {
		t.Fatal(err)
	}
	if !identity.VerifyPassword(user.PasswordHash, chosen) {
		t.Error("the configured password is not accepted")
	}
	if printed := out.String(); strings.Contains(printed, chosen) || strings.Contains(printed, "password") || !strings.Contains(printed, "stint_admin_") {
		t.Errorf("got the output\n%s\nwant the token and no password", printed)
	}
}

func TestRefreshAppliesChangesWithCancelledContext(t *testing.T) {
	store := openStore(t)
	p := &preparer{catalog: catalog.New(store, time.Now), log: slog.New(slog.DiscardHandler)}
	p.done.Store(true)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.refresh(ended); err != nil {
		t.Fatal(err)
	}
	if _, found := p.catalog.Selector().ByName("default"); !found {
		t.Error("the catalog does not have the policy default after the refresh")
	}
}
