package app

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/sqlstore"
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

// opens reports whether a token is known and grants everything.
func opens(t *testing.T, store *sqlstore.Store, text string) bool {
	t.Helper()
	known := catalog.New(store, time.Now)
	if err := known.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	token, found := known.TokenByHash(identity.HashSecret(text))
	return found && token.ActiveAt(time.Now()) && token.Grants(identity.Admin)
}

func TestATokenOfTheEnvironmentOpensBesideTheOneMadeAtTheFirstStart(t *testing.T) {
	store := openStore(t)
	var out strings.Builder
	if err := (&App{out: &out}).bootstrap(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	for _, chosen := range []string{"chosen-by-the-operator", "chosen-another-time"} {
		for range 2 { // a second start finds it there
			a := &App{out: &out, settings: Settings{AdminToken: chosen}, first: &credentials{told: true}}
			if err := a.bootstrap(t.Context(), store); err != nil {
				t.Fatal(err)
			}
		}
		if !opens(t, store, chosen) {
			t.Errorf("STINT_ADMIN_TOKEN=%s does not open", chosen)
		}
	}
	tokens, err := store.Tokens(t.Context())
	if err != nil || len(tokens) != 3 {
		t.Errorf("%d tokens, error %v; want the first and the two that were chosen", len(tokens), err)
	}
}

func TestAFirstStartThatBrokeOffTellsCredentialsThatHold(t *testing.T) {
	store := openStore(t)
	var out strings.Builder
	a := &App{out: &out, first: newCredentials("")}
	// The attempt before has made the user, and its answer was lost.
	user := identity.User{Name: adminName, Role: identity.Administrator, PasswordHash: a.first.passwordHash}
	if _, err := store.AddUser(t.Context(), audit.SystemActor("a test"), user); err != nil {
		t.Fatal(err)
	}
	for range 2 { // what comes after the credentials may break off too
		if err := a.bootstrap(t.Context(), store); err != nil {
			t.Fatal(err)
		}
	}
	told := out.String()
	if strings.Count(told, a.first.password) != 1 || !strings.Contains(told, a.first.token.Text) {
		t.Errorf("the password must be told once, and the token:\n%s", told)
	}
	if !opens(t, store, a.first.token.Text) {
		t.Error("the token that was told does not open")
	}
}

func TestAPasswordOfTheEnvironmentOpensFromTheFirstStartAndIsNotPrinted(t *testing.T) {
	store := openStore(t)
	var out strings.Builder
	const chosen = "chosen by the operator"
	for _, password := range []string{chosen, "another one afterwards"} {
		a := &App{out: &out, settings: Settings{AdminPassword: password}}
		if err := a.bootstrap(t.Context(), store); err != nil {
			t.Fatal(err)
		}
	}
	user, err := store.FindUserByName(t.Context(), adminName)
	if err != nil {
		t.Fatal(err)
	}
	if !identity.VerifyPassword(user.PasswordHash, chosen) {
		t.Error("the password that was chosen for the first start does not open")
	}
	if told := out.String(); strings.Contains(told, chosen) || strings.Contains(told, "password") || !strings.Contains(told, "stint_admin_") {
		t.Errorf("only the token was made and is to be told:\n%s", told)
	}
}

func TestAChangeGovernsThoughTheRequestHasNoTimeLeft(t *testing.T) {
	store := openStore(t)
	a := &App{catalog: catalog.New(store, time.Now), log: slog.New(slog.DiscardHandler)}
	a.prepared.Store(true)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.changed(ended); err != nil {
		t.Fatal(err)
	}
	if _, found := a.catalog.Selector().ByName("default"); !found {
		t.Error("a change that was committed does not govern the node that took it")
	}
}
