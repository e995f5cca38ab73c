package app

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"slices"
	"strings"

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

// run adds the token chosen by the operator and, in a new database, the first credentials. It is
// idempotent.
func (f *firstStart) run(ctx context.Context, store *sqlstore.Store) error {
	by := audit.SystemActor(identity.BootstrapAuthor)
	if f.token != "" {
		if err := addToken(ctx, store, by, identity.SecretOf(f.token)); err != nil {
			return err
		}
	}
	return store.FirstStart(ctx, func() error { return f.create(ctx, store, by) })
}

// create creates the first credentials and prints the generated ones.
func (f *firstStart) create(ctx context.Context, store *sqlstore.Store, by audit.Actor) error {
	if f.printed {
		return nil
	}
	if f.generated == nil {
		f.generated = newCredentials(f.password)
	}
	user := identity.User{Name: adminName, Role: identity.Administrator, PasswordHash: f.generated.passwordHash}
	_, err := store.Identities.AddUser(ctx, by, user)
	if fault.Is(err, fault.Conflict) { // an earlier attempt succeeded, but its response was lost or its process killed
		err = setPassword(ctx, store, by, user)
	}
	if err != nil {
		return err
	}
	if f.token == "" {
		if err := addToken(ctx, store, by, f.generated.token); err != nil {
			return err
		}
	}
	return f.print()
}

// setPassword replaces the password of a first start that never printed it.
func setPassword(ctx context.Context, store *sqlstore.Store, by audit.Actor, user identity.User) error {
	made, err := store.Identities.FindUserByName(ctx, user.Name)
	if err != nil {
		return err
	}
	_, err = store.Identities.UpdateUser(ctx, by, made.ID, identity.UserUpdate{PasswordHash: &user.PasswordHash})
	return err
}

// print prints the generated credentials, never those chosen by the operator. A first start that
// cannot print them is not complete.
func (f *firstStart) print() error {
	var text strings.Builder
	if f.password == "" || f.token == "" {
		text.WriteString("First start. What follows is shown once and not stored; keep it safe.\n")
	}
	if f.password == "" {
		fmt.Fprintf(&text, "  log in to the pages as  %s  with the password  %s\n", adminName, f.generated.password)
	}
	if f.token == "" {
		secret := f.generated.token.Text
		fmt.Fprintf(&text, "  admin token  %s\n  export STINT_ADMIN_TOKEN=%s\n", secret, secret)
	}
	if _, err := io.WriteString(f.out, text.String()); err != nil && text.Len() > 0 {
		return fmt.Errorf("the first password and token cannot be printed; the next start creates them again: %w", err)
	}
	f.printed = true
	return nil
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
