package app

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/sqlstore"
)

// adminName is the user and the token of the first start.
const adminName = "admin"

// credentials are those of the first start. They are made once, so that a
// start that broke off half way and is tried again tells those that hold.
type credentials struct {
	password, passwordHash string
	token                  identity.Secret
	told                   bool
}

// newCredentials makes what was not chosen; password is "" to have one made.
func newCredentials(password string) *credentials {
	if password == "" {
		password = rand.Text()
	}
	return &credentials{
		password: password, passwordHash: identity.HashPassword(password),
		token: identity.NewSecret([]identity.Access{identity.Admin}),
	}
}

// bootstrap makes the first credentials: those that the environment gives, and
// on the first start of a new database those that it does not, printed once.
// It may be called again after it, or what came after it, failed.
func (a *App) bootstrap(ctx context.Context, store *sqlstore.Store) error {
	by := audit.SystemActor("first start")
	if a.settings.AdminToken != "" {
		if err := addToken(ctx, store, by, identity.SecretOf(a.settings.AdminToken)); err != nil {
			return err
		}
	}
	if !store.Seeded {
		return nil
	}
	if a.first == nil {
		a.first = newCredentials(a.settings.AdminPassword)
	}
	if a.first.told {
		return nil
	}
	user := identity.User{Name: adminName, Role: identity.Administrator, PasswordHash: a.first.passwordHash}
	// A conflict is with the attempt before, whose answer was lost.
	if _, err := store.AddUser(ctx, by, user); err != nil && !fault.Is(err, fault.Conflict) {
		return err
	}
	if a.settings.AdminToken == "" {
		if err := addToken(ctx, store, by, a.first.token); err != nil {
			return err
		}
	}
	a.tellFirst()
	return nil
}

// tellFirst prints what was made, never what the environment gave.
func (a *App) tellFirst() {
	a.first.told = true
	madePassword, madeToken := a.settings.AdminPassword == "", a.settings.AdminToken == ""
	if madePassword || madeToken {
		fmt.Fprintln(a.out, "First start. What follows is shown once and kept nowhere; keep it safe.")
	}
	if madePassword {
		fmt.Fprintf(a.out, "  log in to the pages as  %s  with the password  %s\n", adminName, a.first.password)
	}
	if madeToken {
		secret := a.first.token.Text
		fmt.Fprintf(a.out, "  admin token  %s\n  export STINT_ADMIN_TOKEN=%s\n", secret, secret)
	}
}

// addToken adds the bootstrap token unless it is there already, used or
// revoked: one that was revoked stays so. Where another token has its name, as
// when the operator has chosen a new one, it takes one of its own.
func addToken(ctx context.Context, store *sqlstore.Store, by audit.Actor, secret identity.Secret) error {
	for _, name := range []string{adminName, fmt.Sprintf("%s-%x", adminName, secret.Hash[:4])} {
		held, err := holdsToken(ctx, store, secret)
		if err != nil || held {
			return err
		}
		_, err = store.AddToken(ctx, by, identity.Token{
			Name: name, Hint: secret.Hint, Hash: secret.Hash[:], Scopes: []identity.Access{identity.Admin}, Author: by.Name,
		})
		// A conflict is with an older token, or with another node that was first.
		if err == nil || !fault.Is(err, fault.Conflict) {
			return err
		}
	}
	return nil
}

func holdsToken(ctx context.Context, store *sqlstore.Store, secret identity.Secret) (bool, error) {
	tokens, err := store.Tokens(ctx)
	return slices.ContainsFunc(tokens, func(t *identity.Token) bool { return [32]byte(t.Hash) == secret.Hash }), err
}
