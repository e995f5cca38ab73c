// Package cli is the operator's command line: a client of the REST API, plus
// what needs no server (backtest) and what works on the database itself
// (migrate, recover-admin). Each command group is one file.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/buildinfo"
	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/output"
)

// The settings that are read from the environment.
const (
	envURL        = "STINT_ADMIN_URL"
	envCheckURL   = "STINT_CHECK_URL"
	envToken      = "STINT_ADMIN_TOKEN"
	envCheckToken = "STINT_CHECK_TOKEN"
)

// System is the process that commands run in.
type System struct {
	Name   string // the program's, as it was called
	Stdin  *os.File
	Stdout *os.File
	Stderr *os.File
	Getenv func(string) string
	Now    func() time.Time
}

// Main runs the command that args name and returns the exit code.
func Main(args []string, sys System) Code {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := &app{sys: sys}
	root := newRoot(a)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return OK
	}
	for i, line := range explain(err) {
		if i == 0 {
			line = sys.Name + ": " + line
		}
		fmt.Fprintln(sys.Stderr, line)
	}
	return codeOf(err)
}

// app is what all commands share: the process and the global flags.
type app struct {
	sys System

	url            string
	checkURL       string
	tokenFile      string
	checkTokenFile string
	output         string
}

const rootLong = `Administer a Stint server: who is counted, limited, blocked and exempt, and why.

The server's admin listener is named by --url or STINT_ADMIN_URL, its check listener
(for check and replay) by --check-url or STINT_CHECK_URL. The token is read from
STINT_ADMIN_TOKEN or from the file that --token-file names; STINT_CHECK_TOKEN and
--check-token-file do the same for a check listener that requires one. Secrets are never
accepted as arguments, where other users of the machine could read them.

Times are UTC. Durations are written 90s, 15m, 24h, 7d or 1h30m; times
2026-12-31T18:00:00Z.

` + exitHelp

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:               a.sys.Name,
		Short:             "Administer a Stint server",
		Long:              rootLong,
		Version:           buildinfo.Read().String(),
		Example:           "admin check ip:203.0.113.7\nadmin block add ip:203.0.113.0/24 --reason scraping --for 24h\nadmin backtest access.log.gz --rule 1/s --rule 20/m",
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return a.checkFlags(c) },
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.url, "url", "", "address of the admin listener (STINT_ADMIN_URL; http://127.0.0.1:8081)")
	flags.StringVar(&a.checkURL, "check-url", "", "address of the check listener (STINT_CHECK_URL; http://127.0.0.1:8080)")
	flags.StringVar(&a.tokenFile, "token-file", "", "file that holds the admin token (STINT_ADMIN_TOKEN)")
	flags.StringVar(&a.checkTokenFile, "check-token-file", "", "file that holds the token of the check listener (STINT_CHECK_TOKEN)")
	flags.StringVarP(&a.output, "output", "o", string(output.Table), "how to print answers: table, json or csv")
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetIn(a.sys.Stdin)
	root.SetOut(a.sys.Stdout)
	root.SetErr(a.sys.Stderr)
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, add := range g.commands {
			c := add(a)
			c.GroupID = g.id
			root.AddCommand(c)
		}
	}
	// A group is runnable only to report an unknown subcommand.
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "{{if .Runnable}}", "{{if and .Runnable (not .HasSubCommands)}}", 1))
	root.SetHelpCommandGroupID("more")
	root.SetCompletionCommandGroupID("more")
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	offer(root, "output", string(output.Table), string(output.JSON), string(output.CSV))
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if args := c.Flags().Args(); c.HasSubCommands() && len(args) > 0 {
			return runGroup(c, args) // the flag is that of a command which is not there
		}
		return usagef("%w; see '%s --help'", plainFlagError(err), c.CommandPath())
	})
	finish(a, root)
	return root
}

// groups are the commands as the root's help shows them.
var groups = []struct {
	id, title string
	commands  []func(*app) *cobra.Command
}{
	{"monitor", "Monitor:", []func(*app) *cobra.Command{newCheck, newRun, newKey, newExplain, newOffenders, newTraffic, newAttack, newReport, newEvents}},
	{"enforce", "Enforce:", []func(*app) *cobra.Command{newPolicy, newApply, newExport, newBlock, newExemption, newProposal, newEscalation}},
	{"try", "Test rules on recorded traffic:", []func(*app) *cobra.Command{newBacktest, newReplay}},
	{"administration", "Administration:", []func(*app) *cobra.Command{newAudit, newNode, newJob, newNotify, newToken, newUser, newWhoami, newBackup, newRestore, newMigrate, newRecoverAdmin}},
	{"more", "More:", nil},
}

// finish gives every command below c the same behaviour: a wrong argument is a usage
// error, a group without a subcommand prints its help, and examples use the name that
// the program was called by.
func finish(a *app, c *cobra.Command) {
	c.Example = indentExample(c.Example, a.sys.Name)
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if check(c, args) != nil {
				return usagef("usage: '%s', but %s; see '%s --help'", c.UseLine(), argumentsGiven(len(args)), c.CommandPath())
			}
			return nil
		}
	}
	if c.HasSubCommands() {
		c.Args = cobra.ArbitraryArgs
		c.RunE = runGroup
	}
	c.SuggestionsMinimumDistance = 2
	c.DisableFlagsInUseLine = true
	for _, sub := range c.Commands() {
		finish(a, sub)
	}
}

// offer completes a flag with its values. It panics where there is no such
// flag.
func offer(c *cobra.Command, flag string, values ...string) {
	if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
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
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		hint = fmt.Sprintf("; did you mean %s?", strings.Join(near, " or "))
	}
	return usagef("unknown command %q of %s%s; see '%s --help'", args[0], c.CommandPath(), hint, c.CommandPath())
}

// indentExample indents the lines of an example as cobra's help wants them.
// They are written with "admin", which is replaced by the program's name.
func indentExample(text, name string) string {
	if text == "" {
		return ""
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		line = strings.ReplaceAll(" "+line, " admin ", " "+name+" ")
		lines[i] = " " + line
	}
	return strings.Join(lines, "\n")
}

// checkFlags validates the global flags before a command runs.
func (a *app) checkFlags(c *cobra.Command) error {
	if _, err := output.ParseFormat(a.output); err != nil {
		return usagef("--output: %w", err)
	}
	err := c.ValidateRequiredFlags()
	if err == nil {
		err = c.ValidateFlagGroups()
	}
	if err != nil {
		return usagef("%w; see '%s --help'", err, c.CommandPath())
	}
	return nil
}

// client returns the client of the admin listener.
func (a *app) client() (*client.Client, error) {
	token, err := a.token(a.tokenFile, envToken)
	if err != nil {
		return nil, err
	}
	return newClient(firstOf(a.url, a.sys.Getenv(envURL), "http://127.0.0.1:8081"), token)
}

// online returns a RunE for a command that needs the admin listener: it makes the
// client before do runs.
func (a *app) online(do func(c *cobra.Command, from *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		from, err := a.client()
		if err != nil {
			return err
		}
		return do(c, from, args)
	}
}

// checkClient returns the client of the check listener.
func (a *app) checkClient() (*client.Client, error) {
	base, token, err := a.checkAddress()
	if err != nil {
		return nil, err
	}
	return newClient(base, token)
}

// checkAddress returns the address of the check listener and its token, "" if none
// is needed.
func (a *app) checkAddress() (base, token string, err error) {
	token, err = a.token(a.checkTokenFile, envCheckToken)
	return firstOf(a.checkURL, a.sys.Getenv(envCheckURL), "http://127.0.0.1:8080"), token, err
}

// token reads a token from the file, if named, or from the environment.
func (a *app) token(file, env string) (string, error) {
	if file == "" {
		return strings.TrimSpace(a.sys.Getenv(env)), nil
	}
	text, err := readSmall(file)
	if err != nil {
		return "", usagef("--token-file: %w", err)
	}
	return strings.TrimSpace(text), nil
}

func newClient(base, token string) (*client.Client, error) {
	c, err := client.New(base, token)
	if err != nil {
		return nil, usagef("%w", err)
	}
	return c, nil
}

// maxSecretFile bounds a file that holds a token or password, in bytes.
const maxSecretFile = 4 << 10

func readSmall(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxSecretFile+1))
	switch {
	case err != nil:
		return "", err
	case len(text) > maxSecretFile:
		return "", fmt.Errorf("%s is too large to hold a token", path)
	case strings.TrimSpace(string(text)) == "":
		return "", errors.New(path + " is empty")
	}
	return string(text), nil
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// Process returns this process as a System.
func Process() System {
	return System{
		Name: programName(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Now: time.Now,
	}
}

func programName() string {
	if len(os.Args) == 0 {
		return "admin"
	}
	return strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
}
