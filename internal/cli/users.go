package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func init() { addCommands(administration, newUser, newWhoami) }

func newUser(con *console.Console) *cobra.Command {
	return group(cobra.Command{
		Use:     "user",
		Short:   "Manage the users of the admin pages",
		Example: "admin user add maria --role operator\nadmin user list",
	}, newUserAdd(con), newUserList(con), newUserSetRole(con), newUserSetPassword(con), newUserInvite(con),
		newUserSwitch(con, "disable", "Keep a user from logging in, and end the user's sessions", true),
		newUserSwitch(con, "enable", "Let a disabled user log in again", false),
		newUserTOTP(con), newUserDelete(con))
}

// roles are the roles that a user may have.
var roles = []string{"viewer", "operator", "admin"}

const passwordHelp = `The password is asked for on a terminal; elsewhere it is the first line of standard input.`

func newUserAdd(con *console.Console) *cobra.Command {
	var role string
	var invite bool
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a user",
		Long: `Add a user with a role: viewer reads, operator also manages blocks, exemptions and
resets, admin also policies, tokens and users.
` + passwordHelp,
		Example: "admin user add maria --role operator\nadmin user add maria --role operator --invite\nadmin user add jo --role viewer < password.txt",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			if !slices.Contains(roles, role) { // before a password is asked for
				return console.Usagef("--role: %q is not a role; it must be viewer, operator or admin", role)
			}
			in := wire.UserRequest{Name: args[0], Role: role}
			if !invite {
				var err error
				if in.Password, err = con.NewPassword(); err != nil {
					return err
				}
			}
			user, err := client.Call(c.Context(), server, wire.AddUser, in)
			if err != nil {
				return err
			}
			if invite {
				return inviteUser(c, con, server, wire.InvitationRequest{ID: user.ID})
			}
			return output.One(con.Printer(), user, userColumns)
		}),
	}
	c.Flags().StringVar(&role, "role", "", "viewer, operator or admin")
	c.Flags().BoolVar(&invite, "invite", false, "ask for no password, and print a link by which the user sets one")
	requireFlag(c, "role")
	console.CompleteFlag(c, "role", roles...)
	return c
}

func newUserList(con *console.Console) *cobra.Command {
	var filter wire.UserList
	c := listCommand(con, cobra.Command{
		Short:   "List the users",
		Example: "admin user list\nadmin user list --search maria -o json",
	}, wire.ListUsers, userColumns, func() wire.UserList { return filter })
	c.Flags().StringVar(&filter.Search, "search", "", "only users whose name contains this text")
	return c
}

func newUserSetRole(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:     "set-role NAME ROLE",
		Short:   "Change what a user may do: viewer, operator or admin",
		Example: "admin user set-role maria admin",
		Args:    cobra.ExactArgs(2),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			return editUser(c, con, server, args[0], wire.UserPatch{Role: wire.To(args[1])})
		}),
	}
}

func newUserSwitch(con *console.Console, name, short string, disabled bool) *cobra.Command {
	return &cobra.Command{
		Use:     name + " NAME",
		Short:   short,
		Example: "admin user " + name + " maria",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			return editUser(c, con, server, args[0], wire.UserPatch{Disabled: wire.To(disabled)})
		}),
	}
}

func editUser(c *cobra.Command, con *console.Console, server *client.Client, name string, change wire.UserPatch) error {
	user, err := findUser(c, server, name)
	if err != nil {
		return err
	}
	change.ID = user.ID
	return printOne(con, userColumns)(client.Call(c.Context(), server, wire.ChangeUser, change))
}

func newUserSetPassword(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:     "set-password NAME",
		Short:   "Set a user's password and end the user's sessions",
		Long:    "Set a user's password and end the user's sessions.\n" + passwordHelp,
		Example: "admin user set-password maria\nadmin user set-password maria < password.txt",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			user, err := findUser(c, server, args[0])
			if err != nil {
				return err
			}
			password, err := con.NewPassword()
			if err != nil {
				return err
			}
			return note(con, "Set the password of %s and ended all sessions.", output.Escape(user.Name))(client.Call(c.Context(), server, wire.SetPassword, wire.PasswordRequest{ID: user.ID, Password: password}))
		}),
	}
}

func newUserInvite(con *console.Console) *cobra.Command {
	var lasts durationFlag
	c := &cobra.Command{
		Use:   "invite NAME",
		Short: "Make a link by which a user sets a password",
		Long: `Make a link by which a user sets a password: append it to the address of the admin pages. It
works once, until it expires, the password is set otherwise, the user is invited again, is
disabled, gets another role, logs out or changes two-factor authentication. The present
password works until then, and two-factor authentication stays.`,
		Example: "admin user invite maria\nadmin user invite maria --for 1h",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			user, err := findUser(c, server, args[0])
			if err != nil {
				return err
			}
			return inviteUser(c, con, server, wire.InvitationRequest{ID: user.ID, ExpiresIn: lasts.Duration})
		}),
	}
	c.Flags().Var(&lasts, "for", "how long the link works, for example 1h or 7d; 3d if omitted")
	return c
}

func inviteUser(c *cobra.Command, con *console.Console, server *client.Client, in wire.InvitationRequest) error {
	return printOne(con, invitationColumns)(client.Call(c.Context(), server, wire.InviteUser, in))
}

var invitationColumns = output.Columns[wire.Invitation]("user: User, path: Link, expires_at: Expires")

func newUserTOTP(con *console.Console) *cobra.Command {
	c := &cobra.Command{
		Use:     "totp",
		Short:   "Manage the two-factor authentication of users",
		Example: "admin user totp reset maria",
	}
	c.AddCommand(&cobra.Command{
		Use:   "reset NAME",
		Short: "Reset a user's two-factor authentication, and end the user's sessions",
		Long: `Reset a user's two-factor authentication, if the phone and the recovery codes are lost, and
end the user's sessions. The user logs in with the password alone then and, where --require-totp
names the role, sets it up again before anything else.`,
		Example: "admin user totp reset maria",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			user, err := findUser(c, server, args[0])
			if err != nil {
				return err
			}
			return printOne(con, userColumns)(client.Call(c.Context(), server, wire.ResetTOTP, wire.ByID{ID: user.ID}))
		}),
	})
	return c
}

func newUserDelete(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:     "delete NAME",
		Short:   "Delete a user permanently; the audit log keeps what the user did",
		Example: "admin user delete maria",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			user, err := findUser(c, server, args[0])
			if err != nil {
				return err
			}
			return note(con, "Deleted user %s.", output.Escape(user.Name))(client.Call(c.Context(), server, wire.DeleteUser, wire.ByID{ID: user.ID}))
		}),
	}
}

var userColumns = output.Columns(`name: Name (cut), role: Role, disabled: Disabled, totp: Two-factor,
	last_login_at: Last login (or never), source: Source, created_at: Added (drop 1), id: Id (drop 2)`, output.Cells[wire.User]{
	"totp": func(u wire.User) output.Cell { return output.YesNo(!u.TOTPSince.IsZero()) },
})

func findUser(c *cobra.Command, server *client.Client, name string) (*wire.User, error) {
	users, err := client.Items(c.Context(), server, wire.ListUsers, wire.UserList{})
	if err != nil {
		return nil, err
	}
	for _, u := range users {
		if u.Name == name || u.ID == name {
			return &u, nil
		}
	}
	return nil, console.NotFoundf("there is no user %q; see 'user list'", name)
}

func newWhoami(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:     "whoami",
		Short:   "Show whose token is used and what it may do",
		Example: "admin whoami\nadmin whoami --url https://stint.example.com:8081 --token-file ~/.stint-token",
		Args:    cobra.NoArgs,
		RunE: online(con, func(c *cobra.Command, server *client.Client, _ []string) error {
			return printOne(con, whoamiColumns)(client.Call(c.Context(), server, wire.WhoAmI, wire.None{}))
		}),
	}
}

var whoamiColumns = output.Columns[wire.Whoami]("name: Name, kind: Kind, scopes: May, expires_at: Expires (or never), address: Seen from, id: Id")
