package local

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/wire"
)

func NewRecoverAdmin(con *console.Console) *cobra.Command {
	var database databaseFlags
	var user string
	c := &cobra.Command{
		Use:   "recover-admin",
		Short: "Create an admin token directly in the database, if all are lost",
		Long: `Create an admin token directly in the database, if all admin tokens are lost. Everybody who
can write to the database can do this. The token is printed once; running servers accept it
within seconds. It is recorded in the audit log.

With --user a user becomes (again) an enabled admin with a new password, which is asked for
on a terminal and elsewhere is the first line of standard input. The user's two-factor
authentication is disabled, and the user's sessions end.`,
		Example: "admin recover-admin --data-dir ./data\nSTINT_DATABASE_URL=postgres://stint@db/stint admin recover-admin\nadmin recover-admin --user maria",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if user == "" && c.Flags().Changed("user") { // an unset variable must not lead to a new token
				return console.Usagef("--user is empty; name a user, or leave it out to create a token")
			}
			location, err := database.location(con)
			if err != nil {
				return err
			}
			store, err := sqlstore.Open(c.Context(), location, sqlstore.Options{Now: con.Now})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, store.Close()) }()
			if user != "" {
				err = recoverUser(c.Context(), con, store, user)
			} else {
				err = recoverToken(c.Context(), con, store)
			}
			if err != nil {
				return err
			}
			// A first start that was killed must not replace the password at the next one.
			return store.EndFirstStart(c.Context())
		},
	}
	database.add(c)
	c.Flags().StringVar(&user, "user", "", "make this user an admin with a new password, instead of creating a token")
	return c
}

// recovery is the actor of recover-admin's changes.
var recovery = audit.SystemActor("recover-admin")

func recoverToken(ctx context.Context, con *console.Console, store *sqlstore.Store) error {
	scopes := []identity.Access{identity.Admin}
	secret := identity.NewSecret(scopes)
	token, err := store.Identities.AddToken(ctx, recovery, identity.Token{
		Name: "recovered " + con.Now().UTC().Format("2006-01-02 15:04:05.000"),
		Hint: secret.Hint, Hash: secret.Hash[:], Scopes: scopes, Author: recovery.Name,
	})
	if err != nil {
		return err
	}
	return con.PrintToken(&wire.CreatedToken{
		Token: wire.Token{
			ID: token.ID, Name: token.Name, Hint: token.Hint, Scopes: []string{string(identity.Admin)},
			Author: token.Author, Active: true, CreatedAt: wire.At(token.Created),
		},
		Secret: secret.Text,
	})
}

func recoverUser(ctx context.Context, con *console.Console, store *sqlstore.Store, name string) error {
	user, err := store.Identities.FindUserByName(ctx, name)
	if fault.Is(err, fault.NotFound) {
		err = nil
		if wrong := identity.CheckUserName(name); wrong != nil {
			err = console.Usagef("--user: there is no such user, and the name of a new one %w", wrong)
		}
	}
	if err != nil {
		return err
	}
	password, err := con.NewPassword()
	if err != nil {
		return err
	}
	if err := identity.CheckPassword(password); err != nil {
		return console.Usagef("%w", err)
	}
	hash := identity.HashPassword(password)
	if user == nil {
		_, err = store.Identities.AddUser(ctx, recovery, identity.User{Name: name, Role: identity.Administrator, PasswordHash: hash})
	} else {
		role, disabled := identity.Administrator, false
		_, err = store.Identities.UpdateUser(ctx, recovery, user.ID, identity.UserUpdate{Role: &role, PasswordHash: &hash, Disabled: &disabled, RemoveTOTP: true})
	}
	if err != nil {
		return err
	}
	con.Notef("User %s is now an enabled admin with the new password.", output.Escape(name))
	if user != nil {
		con.Notef("All sessions of the user are ended.")
	}
	if user != nil && !user.TOTPSince.IsZero() {
		con.Notef("Two-factor authentication of the user is removed, with its recovery codes.")
	}
	con.Notef("Servers with --password-login let in only the users that it names; add this one there if it is missing.")
	return nil
}
