package app

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"slices"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/sqlstore"
)

// adminName is the name of the first user and of the first token.
const adminName = "admin"

// firstStart creates the first credentials of a database and prints them once.
type firstStart struct {
	token, password string // chosen by the operator; "" to generate one
	out             io.Writer
	// alone means that no other node uses the database. An unfinished first start was then
	// killed, and is repeated.
	alone bool
	// generated is kept between attempts, so that a start that failed halfway and is repeated
	// prints valid credentials. It is nil before the first attempt.
	generated *credentials
	printed   bool
}

// credentials are the password of the first user and the secret of the first token.
type credentials struct {
	password, passwordHash string
	token                  identity.Secret
}

// newCredentials generates credentials. If password is "", it generates the password too.
func newCredentials(password string) *credentials {
	if password == "" {
		password = rand.Text()
	}
	return &credentials{
		password: password, passwordHash: identity.HashPassword(password),
		token: identity.NewSecret([]identity.Access{identity.Admin}),
	}
}

// run adds the credentials chosen by the operator and, in a new database, the generated ones.
// It is idempotent.
func (f *firstStart) run(ctx context.Context, store *sqlstore.Store) error {
	by := audit.SystemActor(identity.BootstrapAuthor)
	if f.token != "" {
		if err := addToken(ctx, store, by, identity.SecretOf(f.token)); err != nil {
			return err
		}
	}
	if f.printed {
		return store.EndFirstStart(ctx)
	}
	killed := false
	if f.alone && !store.Seeded {
		var err error
		if killed, err = store.AwaitsFirstStart(ctx); err != nil {
			return err
		}
	}
	if !store.Seeded && !killed {
		return nil
	}
	if f.generated == nil {
		f.generated = newCredentials(f.password)
	}
	user := identity.User{Name: adminName, Role: identity.Administrator, PasswordHash: f.generated.passwordHash}
	_, err := store.Identities.AddUser(ctx, by, user)
	if fault.Is(err, fault.Conflict) {
		err = nil // an earlier attempt succeeded, but its response was lost or its process killed
		if killed {
			err = setPassword(ctx, store, by, user)
		}
	}
	if err != nil {
		return err
	}
	if f.token == "" {
		if err := addToken(ctx, store, by, f.generated.token); err != nil {
			return err
		}
	}
	f.print()
	return store.EndFirstStart(ctx)
}

// setPassword replaces the password that a killed first start set and never printed.
func setPassword(ctx context.Context, store *sqlstore.Store, by audit.Actor, user identity.User) error {
	made, err := store.Identities.FindUserByName(ctx, user.Name)
	if err != nil {
		return err
	}
	_, err = store.Identities.UpdateUser(ctx, by, made.ID, identity.UserUpdate{PasswordHash: &user.PasswordHash})
	return err
}

// print prints the generated credentials, never those chosen by the operator.
func (f *firstStart) print() {
	f.printed = true
	if f.password == "" || f.token == "" {
		fmt.Fprintln(f.out, "First start. What follows is shown once and not stored; keep it safe.")
	}
	if f.password == "" {
		fmt.Fprintf(f.out, "  log in to the pages as  %s  with the password  %s\n", adminName, f.generated.password)
	}
	if f.token == "" {
		secret := f.generated.token.Text
		fmt.Fprintf(f.out, "  admin token  %s\n  export STINT_ADMIN_TOKEN=%s\n", secret, secret)
	}
}

// addToken adds the bootstrap token unless the database has it. A revoked one stays revoked. If
// another token has its name, for example because the operator chose a new token, it gets a
// different name.
func addToken(ctx context.Context, store *sqlstore.Store, by audit.Actor, secret identity.Secret) error {
	for _, name := range []string{adminName, fmt.Sprintf("%s-%x", adminName, secret.Hash[:4])} {
		exists, err := hasToken(ctx, store, secret)
		if err != nil || exists {
			return err
		}
		_, err = store.Identities.AddToken(ctx, by, identity.Token{
			Name: name, Hint: secret.Hint, Hash: secret.Hash[:], Scopes: []identity.Access{identity.Admin}, Author: by.Name,
		})
		// A conflict is with an older token, or another node was first.
		if err == nil || !fault.Is(err, fault.Conflict) {
			return err
		}
	}
	return nil
}

func hasToken(ctx context.Context, store *sqlstore.Store, secret identity.Secret) (bool, error) {
	tokens, err := store.Identities.Tokens(ctx)
	return slices.ContainsFunc(tokens, func(t *identity.Token) bool { return [32]byte(t.Hash) == secret.Hash }), err
}
