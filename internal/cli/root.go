// Package cli is the operator's command line: a client of the REST API, with one file per
// resource. Package local contains the commands for files and databases on this machine.
package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/buildinfo"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/local"
	"github.com/stint-dev/stint/internal/cli/output"
)

// Main runs the command in args and returns the exit code.
func Main(args []string, sys console.System) console.Code {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	con := &console.Console{System: sys, Interrupted: ctx.Done()}
	root := newRoot(con)
	root.SetArgs(args)
	unknown := refuseHelpOfUnknown(root)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = *unknown
	}
	if err == nil {
		err = con.Out().Err()
	}
	if err == nil {
		return console.OK
	}
	for i, line := range explain(err) {
		if i == 0 {
			line = sys.Name + ": " + line
		}
		fmt.Fprintln(sys.Stderr, line)
	}
	return codeOf(err)
}

const rootLong = `Administer a Stint server: who is counted, limited, blocked and exempt, and why.

The server's admin listener is named by --url or STINT_ADMIN_URL, its check listener
(for check, follow and report) by --check-url or STINT_CHECK_URL. The token is read from
STINT_ADMIN_TOKEN or from the file that --token-file names; STINT_CHECK_TOKEN and
--check-token-file do the same for a check listener that requires one. Secrets are never
accepted as arguments, where other users of the machine could read them.

Several installations get names by 'context set'; --context or 'context use' chooses one.

Times are UTC. Durations are written 90s, 15m, 24h, 7d or 1h30m; times
YYYY-MM-DDThh:mm:ssZ.

` + exitHelp

func newRoot(con *console.Console) *cobra.Command {
	root := &cobra.Command{
		Use:               con.Name,
		Short:             "Administer a Stint server",
		Long:              rootLong,
		Version:           buildinfo.Read().String(),
		Example:           "admin check ip:203.0.113.7\nadmin block add ip:203.0.113.0/24 --reason scraping --for 24h\nadmin backtest access.log.gz --rule 1/s --rule 20/m",
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return checkFlags(c, con) },
	}
	con.AddFlags(root)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetIn(con.Stdin)
	root.SetOut(con.Out())
	root.SetErr(con.Stderr)
	for _, g := range groups {
		root.AddGroup(&g)
		for _, of := range commandsOf[g.ID] {
			c := of(con)
			c.GroupID = g.ID
			root.AddCommand(c)
		}
	}
	// A group is runnable only to report an unknown subcommand, unless it has arguments.
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "{{if .Runnable}}", "{{if and .Runnable (or (not .HasSubCommands) (ne .UseLine .CommandPath))}}", 1))
	root.SetHelpCommandGroupID(more)
	root.SetCompletionCommandGroupID(more)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if args := c.Flags().Args(); c.HasSubCommands() && len(args) > 0 {
			return runGroup(c, args) // a flag of an unknown command
		}
		return console.Usagef("%w; see '%s --help'", plainFlagError(c, err), c.CommandPath())
	})
	finish(root, con)
	completeNames(root, con)
	return root
}

// The groups of commands in the root's help.
const (
	monitor        = "monitor"
	enforce        = "enforce"
	try            = "try"
	administration = "administration"
	more           = "more"
)

// groups are the groups with their titles, in the order of the root's help.
var groups = []cobra.Group{
	{ID: monitor, Title: "Monitor:"},
	{ID: enforce, Title: "Enforce:"},
	{ID: try, Title: "Test rules on recorded traffic:"},
	{ID: administration, Title: "Administration:"},
	{ID: more, Title: "More:"},
}

// commandsOf make the commands of each group. Each file adds its own by addCommands.
var commandsOf = map[string][]func(*console.Console) *cobra.Command{}

func addCommands(group string, of ...func(*console.Console) *cobra.Command) {
	commandsOf[group] = append(commandsOf[group], of...)
}

func init() {
	addCommands(enforce, local.NewFirewall, local.NewFollow)
	addCommands(try, local.NewBacktest)
	addCommands(administration, local.NewContext, local.NewMigrate, local.NewRecoverAdmin)
}

// finish gives every command below c the same behaviour: a wrong argument is a usage error, a
// group without a subcommand prints its help, and examples use the name of the program as it
// was called.
func finish(c *cobra.Command, con *console.Console) {
	c.Example = indentExample(c.Example, con.Name)
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if check(c, args) != nil {
				return wrongArguments(c, len(args))
			}
			return nil
		}
	}
	if c.HasSubCommands() {
		c.Args = cobra.ArbitraryArgs
		if c.RunE == nil {
			c.RunE = runGroup
			c.Annotations = map[string]string{isGroup: "true"}
		}
	}
	if short := shortNames[c.Name()]; short != "" {
		c.Aliases = append(c.Aliases, short)
	}
	c.DisableFlagsInUseLine = true
	console.ReadGroupedNumbers(c)
	for _, sub := range c.Commands() {
		finish(sub, con)
	}
}

// isGroup is the annotation of commands that do nothing but hold others.
const isGroup = "group"

// refuseHelpOfUnknown makes the help of an unknown command the usage error that running it is: cobra would
// print the help of the group and succeed. The error is set when the command has run.
func refuseHelpOfUnknown(root *cobra.Command) (unknown *error) {
	unknown = new(error)
	show := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if given := c.Flags().Args(); c.Annotations[isGroup] != "" && len(given) > 0 {
			*unknown = runGroup(c, given)
			return
		}
		show(c, args)
	})
	for _, help := range root.Commands() {
		if help.Name() != "help" {
			continue
		}
		help.Run, help.RunE = nil, func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err != nil {
				return console.Usagef("%w", err)
			}
			if c.Annotations[isGroup] != "" && len(rest) > 0 {
				return runGroup(c, rest)
			}
			c.InitDefaultHelpFlag() // or the help lacks it
			return c.Help()
		}
	}
	return unknown
}

// shortNames are the aliases of the commands of these names, in every group.
var shortNames = map[string]string{"list": "ls", "delete": "rm"}

// wrongArguments returns the usage error of a command for its number of arguments.
func wrongArguments(c *cobra.Command, n int) error {
	return console.Usagef("usage: '%s', but %s; see '%s --help'", c.UseLine(), argumentsGiven(n), c.CommandPath())
}

func argumentsGiven(n int) string {
	switch n {
	case 0:
		return "no argument was given"
	case 1:
		return "1 argument was given"
	}
	return fmt.Sprintf("%d arguments were given", n)
}

func runGroup(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return c.Help()
	}
	hint := ""
	c.SuggestionsMinimumDistance = min(2, len(args[0])/2) // two changes of "foo" make another word
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		hint = fmt.Sprintf("; did you mean %s?", strings.Join(near, " or "))
	}
	return console.Usagef("unknown command %q of %s%s; see '%s --help'", args[0], c.CommandPath(), hint, c.CommandPath())
}

// programInExample matches the name of the program in an example: at the start of a command,
// also after variables. Elsewhere "admin" is the name of a role or a scope.
var programInExample = regexp.MustCompile(`(^|\| )((?:[A-Z_]+=\S+ )*)admin `)

// indentExample indents the lines of an example for cobra's help. It replaces "admin" in them
// by the program's name.
func indentExample(text, name string) string {
	if text == "" {
		return ""
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = "  " + programInExample.ReplaceAllString(line, "${1}${2}"+strings.ReplaceAll(name, "$", "$$")+" ")
	}
	return strings.Join(lines, "\n")
}

// checkFlags validates the global flags before a command runs.
func checkFlags(c *cobra.Command, con *console.Console) error {
	if _, err := output.ParseFormat(con.Format); err != nil {
		return console.Usagef("--output: %w", err)
	}
	err := c.ValidateRequiredFlags()
	if err == nil {
		err = checkRequiredTexts(c)
	}
	if err == nil {
		err = c.ValidateFlagGroups()
	}
	if err != nil {
		return console.Usagef("%w; see '%s --help'", plainGroupError(err), c.CommandPath())
	}
	return console.CheckNumbers(c)
}
