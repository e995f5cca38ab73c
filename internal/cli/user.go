package cli

import (
	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func newUser(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:     "user",
		Short:   "Manage the users of the admin pages",
		Example: "admin user add maria --role operator\nadmin user list",
	}
	c.AddCommand(newUserAdd(a), newUserList(a), newUserSetRole(a), newUserSetPassword(a),
		newUserSwitch(a, "disable", "Keep a user from logging in, and end the user's sessions", true),
		newUserSwitch(a, "enable", "Let a disabled user log in again", false),
		newUserRemove(a))
	return c
}

const passwordHelp = `The password is asked for on a terminal; elsewhere it is the first line of standard input.`

func newUserAdd(a *app) *cobra.Command {
	var role string
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a user",
		Long: `Add a user with a role: viewer reads, operator also manages blocks, exemptions and
resets, admin also policies, tokens and users.
` + passwordHelp,
		Example: "admin user add maria --role operator\nadmin user add jo --role viewer < password.txt",
		Args:    cobra.ExactArgs(1),
		RunE: a.online(func(c *cobra.Command, client *client.Client, args []string) error {
			password, err := a.newPassword()
			if err != nil {
				return err
			}
			user, err := client.CreateUser(c.Context(), wire.UserRequest{Name: args[0], Role: role, Password: password})
			if err != nil {
				return err
			}
			return output.One(a.printer(), *user, userColumns)
		}),
	}
	c.Flags().StringVar(&role, "role", "", "viewer, operator or admin")
	mustHave(c, "role")
	offer(c, "role", "viewer", "operator", "admin")
	return c
}

func newUserList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the users",
		Example: "admin user list\nadmin user list -o json",
		Args:    cobra.NoArgs,
		RunE: a.online(func(c *cobra.Command, client *client.Client, _ []string) error {
			users, err := client.Users(c.Context())
			if err != nil {
				return err
			}
			return output.List(a.printer(), users, userColumns)
		}),
	}
}

func newUserSetRole(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "set-role NAME ROLE",
		Short:   "Change what a user may do: viewer, operator or admin",
		Example: "admin user set-role maria admin",
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			return a.editUser(c, args[0], wire.UserPatch{Role: wire.To(args[1])})
		},
	}
}

func newUserSwitch(a *app, name, short string, disabled bool) *cobra.Command {
	return &cobra.Command{
		Use:     name + " NAME",
		Short:   short,
		Example: "admin user " + name + " maria",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.editUser(c, args[0], wire.UserPatch{Disabled: wire.To(disabled)})
		},
	}
}

func (a *app) editUser(c *cobra.Command, name string, change wire.UserPatch) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	user, err := findUser(c, client, name)
	if err != nil {
		return err
	}
	if user, err = client.EditUser(c.Context(), user.ID, change); err != nil {
		return err
	}
	return output.One(a.printer(), *user, userColumns)
}

func newUserSetPassword(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "set-password NAME",
		Short:   "Set a user's password and end the user's sessions",
		Long:    "Set a user's password and end the user's sessions.\n" + passwordHelp,
		Example: "admin user set-password maria\nadmin user set-password maria < password.txt",
		Args:    cobra.ExactArgs(1),
		RunE: a.online(func(c *cobra.Command, client *client.Client, args []string) error {
			user, err := findUser(c, client, args[0])
			if err != nil {
				return err
			}
			password, err := a.newPassword()
			if err != nil {
				return err
			}
			if err := client.SetPassword(c.Context(), user.ID, password); err != nil {
				return err
			}
			a.notef("Set the password of %s and ended all sessions.", output.Escape(user.Name))
			return nil
		}),
	}
}

func newUserRemove(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME",
		Short:   "Delete a user permanently; the audit log keeps what the user did",
		Example: "admin user remove maria",
		Args:    cobra.ExactArgs(1),
		RunE: a.online(func(c *cobra.Command, client *client.Client, args []string) error {
			user, err := findUser(c, client, args[0])
			if err != nil {
				return err
			}
			if err := client.DeleteUser(c.Context(), user.ID); err != nil {
				return err
			}
			a.notef("Deleted user %s.", output.Escape(user.Name))
			return nil
		}),
	}
}

var userColumns = []output.Column[wire.User]{
	{Name: "name", Head: "Name", Cut: true, Cell: func(u wire.User) output.Cell { return output.Text(u.Name) }},
	{Name: "role", Head: "Role", Cell: func(u wire.User) output.Cell { return output.Text(u.Role) }},
	{Name: "disabled", Head: "Disabled", Cell: func(u wire.User) output.Cell { return output.YesNo(u.Disabled) }},
	{Name: "last_login_at", Head: "Last login", Cell: func(u wire.User) output.Cell { return output.TimeOr(u.LastLoginAt.Time, "never") }},
	{Name: "created_at", Head: "Added", Drop: 1, Cell: func(u wire.User) output.Cell { return output.Time(u.CreatedAt.Time) }},
	{Name: "id", Head: "Id", Drop: 2, Cell: func(u wire.User) output.Cell { return output.Text(u.ID) }},
}

func findUser(c *cobra.Command, from *client.Client, name string) (*wire.User, error) {
	users, err := from.Users(c.Context())
	if err != nil {
		return nil, err
	}
	for _, u := range users {
		if u.Name == name || u.ID == name {
			return &u, nil
		}
	}
	return nil, usagef("there is no user %q; see 'user list'", name)
}

// newPassword asks for a password, twice on a terminal.
func (a *app) newPassword() (string, error) {
	password, err := a.secret("Password")
	if err != nil || !a.interactive() {
		return password, err
	}
	again, err := a.secret("The same again")
	if err == nil && again != password {
		err = usagef("the two passwords differ; nothing was changed")
	}
	return password, err
}
