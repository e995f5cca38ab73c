package app

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/sqlstore"
)

// adminName is the user and the token of the first start.
const adminName = "admin"

// bootstrap makes the first credentials: those that the environment gives, and
// on the first start of a new database those that it does not, printed once.
func (a *App) bootstrap(ctx context.Context, store *sqlstore.Store) error {
	by := audit.Stint("first start")
	if a.settings.AdminToken != "" {
		if err := addToken(ctx, store, by, identity.SecretOf(a.settings.AdminToken)); err != nil {
			return err
		}
	}
	if !store.Seeded {
		return nil
	}
	password := rand.Text()
	user := identity.User{Name: adminName, Role: identity.Administrator, PasswordHash: identity.HashPassword(password)}
	if _, err := store.AddUser(ctx, by, user); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "First start. These are shown once and kept nowhere; keep them safe.\n  log in to the pages as  %s  with the password  %s\n", adminName, password)
	if a.settings.AdminToken != "" {
		return nil
	}
	secret := identity.NewSecret([]identity.Access{identity.Admin})
	if err := addToken(ctx, store, by, secret); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "  admin token  %s\n  export STINT_ADMIN_TOKEN=%s\n", secret.Text, secret.Text)
	return nil
}

// addToken adds the bootstrap token unless it is there already, used or
// revoked: one that was revoked stays so.
func addToken(ctx context.Context, store *sqlstore.Store, by audit.Actor, secret identity.Secret) error {
	tokens, err := store.Tokens(ctx)
	if err != nil {
		return err
	}
	for _, t := range tokens {
		if [32]byte(t.Hash) == secret.Hash {
			return nil
		}
	}
	_, err = store.AddToken(ctx, by, identity.Token{
		Name: adminName, Hint: secret.Hint, Hash: secret.Hash[:], Scopes: []identity.Access{identity.Admin}, Author: by.Name,
	})
	if fault.Is(err, fault.Conflict) { // another node was first
		return nil
	}
	return err
}
