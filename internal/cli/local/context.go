package local

import (
	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
)

// NewContext returns the commands on named contexts.
func NewContext(con *console.Console) *cobra.Command {
	c := &cobra.Command{
		Use:   "context",
		Short: "Name installations, and choose the one that commands call",
		Long: `Name installations and choose the one that commands call. A context has the addresses of
an installation's listeners and the names of the files with its tokens, no token itself. Contexts
are kept in ~/.config/stint/contexts.yaml (or below XDG_CONFIG_HOME).

What is used is, in this order: a flag, the context that --context or STINT_CONTEXT names, the
other environment variables, the context that 'context use' chose, the default. The token of a
context is sent only to the address of that context, and STINT_ADMIN_TOKEN to no address that only
a context says: set STINT_ADMIN_URL with it. --token-file is for whatever address is used.`,
		Example: "admin context set production --url https://stint.example.com:8081 --token-file ~/.stint-production\nadmin context use production\n" +
			"admin whoami --context staging",
	}
	c.AddCommand(newContextList(con), newContextShow(con), newContextSet(con), newContextUse(con), newContextDelete(con))
	return c
}

// namedContext is a context as it is printed.
type namedContext struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	console.Context
}

var contextColumns = []output.Column[namedContext]{
	{Name: "name", Head: "Name", Cell: func(c namedContext) output.Cell { return output.Text(c.Name) }},
	{Name: "current", Head: "Current", Cell: func(c namedContext) output.Cell { return output.YesNo(c.Current) }},
	{Name: "url", Head: "Admin listener", Cut: true, Cell: func(c namedContext) output.Cell { return output.Text(c.URL) }},
	{Name: "check_url", Head: "Check listener", Cut: true, Cell: func(c namedContext) output.Cell { return output.Text(c.CheckURL) }},
	{Name: "token_file", Head: "Token", Cut: true, Drop: 1, Cell: func(c namedContext) output.Cell { return output.Text(c.TokenFile) }},
	{Name: "check_token_file", Head: "Check token", Cut: true, Drop: 2, Cell: func(c namedContext) output.Cell { return output.Text(c.CheckTokenFile) }},
}

func newContextList(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the contexts", Example: "admin context list", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			all, err := con.ReadContexts()
			if err != nil {
				return err
			}
			rows := []namedContext{}
			for _, name := range all.Names() {
				rows = append(rows, namedContext{name, name == all.Current, all.Contexts[name]})
			}
			if len(rows) == 0 {
				con.Notef("None; 'context set' adds one.")
			}
			return output.List(con.Printer(), rows, contextColumns)
		},
	}
}

// withContext returns the RunE of a command on an existing context, which its first argument
// names.
func withContext(con *console.Console, do func(all *console.Contexts, name string) error) func(*cobra.Command, []string) error {
	return func(_ *cobra.Command, args []string) error {
		all, err := con.ReadContexts()
		if err != nil {
			return err
		}
		if _, exists := all.Contexts[args[0]]; !exists {
			return console.NotFoundf("there is no context %q; see 'context list'", args[0])
		}
		return do(all, args[0])
	}
}

func newContextShow(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show one context", Example: "admin context show production", Args: cobra.ExactArgs(1), ValidArgsFunction: completeContexts(con),
		RunE: withContext(con, func(all *console.Contexts, name string) error {
			return output.One(con.Printer(), namedContext{name, name == all.Current, all.Contexts[name]}, contextColumns)
		}),
	}
}

func newContextSet(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "set NAME",
		Short: "Create a context, or change the fields that the flags name",
		Long: `Create a context from --url, --check-url, --token-file and --check-token-file, or change
those of an existing one that are given.`,
		Example:           "admin context set production --url https://stint.example.com:8081 --check-url https://stint.example.com:8080 --token-file ~/.stint-production",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeContexts(con),
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := con.ReadContexts()
			if err != nil {
				return err
			}
			if err := console.CheckContextName(args[0]); err != nil {
				return err
			}
			given, err := con.GivenContext()
			if err != nil {
				return err
			}
			if given == (console.Context{}) {
				return console.Usagef("give what the context has: --url, --check-url, --token-file or --check-token-file")
			}
			for _, address := range []struct{ flag, url, example string }{
				{console.Admin.URLFlag, given.URL, console.Admin.Default}, {console.Checks.URLFlag, given.CheckURL, console.Checks.Default},
			} {
				if _, err := client.New(console.FirstOf(address.url, address.example), "", address.example); err != nil {
					return console.Usagef("%s: %w", address.flag, err)
				}
			}
			next := all.Contexts[args[0]]
			next.URL = console.FirstOf(given.URL, next.URL)
			next.CheckURL = console.FirstOf(given.CheckURL, next.CheckURL)
			next.TokenFile = console.FirstOf(given.TokenFile, next.TokenFile)
			next.CheckTokenFile = console.FirstOf(given.CheckTokenFile, next.CheckTokenFile)
			all.Contexts[args[0]] = next
			if err := con.WriteContexts(all); err != nil {
				return err
			}
			return output.One(con.Printer(), namedContext{args[0], args[0] == all.Current, next}, contextColumns)
		},
	}
}

func newContextUse(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Short: "Choose the context that commands use by default", Example: "admin context use production",
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeContexts(con),
		RunE: withContext(con, func(all *console.Contexts, name string) error {
			all.Current = name
			if err := con.WriteContexts(all); err != nil {
				return err
			}
			con.Notef("Commands call %s now.", name)
			return nil
		}),
	}
}

func newContextDelete(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME", Short: "Delete a context; the files with its tokens stay", Example: "admin context delete staging",
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeContexts(con),
		RunE: withContext(con, func(all *console.Contexts, name string) error {
			delete(all.Contexts, name)
			if all.Current == name {
				all.Current = ""
			}
			if err := con.WriteContexts(all); err != nil {
				return err
			}
			con.Notef("Deleted the context %s.", name)
			return nil
		}),
	}
}

func completeContexts(con *console.Console) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		all, err := con.ReadContexts()
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return all.Names(), cobra.ShellCompDirectiveNoFileComp
	}
}
