package cli

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

// run is the body of a command that calls a listener.
type run func(c *cobra.Command, server *client.Client, args []string) error

// online returns the RunE of a command that calls the admin listener.
func online(con *console.Console, do run) func(*cobra.Command, []string) error {
	return connected(con.AdminListener, console.Admin, do)
}

// checkOnline returns the RunE of a command that calls the check listener.
func checkOnline(con *console.Console, do run) func(*cobra.Command, []string) error {
	return connected(con.CheckListener, console.Checks, do)
}

func connected(find func() (base, token string, err error), is console.Listener, do run) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		base, token, err := find()
		if err != nil {
			return err
		}
		server, err := client.New(base, token, is.Default)
		if err != nil {
			return console.Usagef("%w", err)
		}
		return explainListener(do(c, server, args), is, base, token)
	}
}

// setIf sets a query parameter unless the value is empty.
func setIf(query url.Values, name, value string) {
	if value != "" {
		query.Set(name, value)
	}
}

// printOne returns the function that prints what a call answers.
func printOne[T any](con *console.Console, columns []output.Column[T]) func(T, error) error {
	return func(answer T, err error) error {
		if err != nil {
			return err
		}
		return output.One(con.Printer(), answer, columns)
	}
}

// printItems prints a list, and a note if it is empty.
func printItems[T any](con *console.Console, items []T, columns []output.Column[T]) error {
	p := con.Printer()
	if len(items) == 0 && p.Format == output.Table {
		con.Notef("None.")
		return nil
	}
	return output.List(p, items, columns)
}

// listCommand returns the command "list" of what is listed on one page, with the short text and
// the examples of texts. in returns what to list.
func listCommand[In, T any](con *console.Console, texts cobra.Command, op wire.Op[In, wire.Page[T]], columns []output.Column[T], in func() In) *cobra.Command {
	texts.Use, texts.Args = cmp.Or(texts.Use, "list"), cobra.NoArgs
	texts.RunE = online(con, func(c *cobra.Command, server *client.Client, _ []string) error {
		return printAll(con, columns)(client.Items(c.Context(), server, op, in()))
	})
	return &texts
}

// pagedCommand is listCommand for what is listed on several pages. It has the flag that limits a listing.
func pagedCommand[In, T any](con *console.Console, texts cobra.Command, op wire.Op[In, wire.Page[T]], columns []output.Column[T], in func() In) *cobra.Command {
	var limit int
	texts.Use, texts.Args = cmp.Or(texts.Use, "list"), cobra.NoArgs
	texts.RunE = online(con, func(c *cobra.Command, server *client.Client, _ []string) error {
		return printListing(con, columns)(client.Pages(c.Context(), server, op, in(), limit))
	})
	limitFlag(&texts, &limit)
	return &texts
}

// noFilter is the input of a list that has no filter.
func noFilter() wire.None { return wire.None{} }

// printAll returns the function that prints the list that a call answers, and a note if it is empty.
func printAll[T any](con *console.Console, columns []output.Column[T]) func([]T, error) error {
	return func(items []T, err error) error {
		if err != nil {
			return err
		}
		return printItems(con, items, columns)
	}
}

// printListing returns the function that prints the listing that a call answers, and a note if rows were left out.
func printListing[T any](con *console.Console, columns []output.Column[T]) func(client.Listing[T], error) error {
	return func(found client.Listing[T], err error) error {
		if err := printAll(con, columns)(found.Items, err); err != nil {
			return err
		}
		switch {
		case !found.More:
		case found.Total >= 0:
			con.Notef("Showing %d of %d; --limit 0 shows all.", len(found.Items), found.Total)
		default:
			con.Notef("Showing the first %d; --limit 0 shows all.", len(found.Items))
		}
		return nil
	}
}

// note returns the function that notes that a call did what was asked. The arguments must be escaped already.
func note(con *console.Console, format string, args ...any) func(any, error) error {
	return func(_ any, err error) error {
		if err == nil {
			con.Notef(format, args...)
		}
		return err
	}
}

// group returns a command that only holds others.
func group(texts cobra.Command, commands ...*cobra.Command) *cobra.Command {
	texts.AddCommand(commands...)
	return &texts
}

// confirmEntry makes a change of an entry. If the server asks for a confirmation because
// the pattern is broad, it shows the impact and asks on a terminal, unless yes is set.
func confirmEntry[T any](con *console.Console, yes bool, showImpact func(pattern string) error, do func(confirmation string) (T, error)) (T, error) {
	return confirm(con, yes, showImpact, do)
}

// confirmPolicy makes a change of policies. If the server asks for a confirmation, it asks
// on a terminal, unless yes is set.
func confirmPolicy[T any](con *console.Console, yes bool, do func(confirmation string) (T, error)) (T, error) {
	return confirm(con, yes, func(string) error { return nil }, do)
}

func confirm[T any](con *console.Console, yes bool, showImpact func(pattern string) error, do func(confirmation string) (T, error)) (T, error) {
	done, err := do("")
	var problem *wire.Problem
	if !errors.As(err, &problem) || problem.Code != "confirmation_required" && !(yes && problem.Code == "proposed") {
		return done, err
	}
	var confirmation, reason string
	if json.Unmarshal(problem.More["confirm"], &confirmation) != nil || json.Unmarshal(problem.More["confirm_reason"], &reason) != nil {
		return done, err
	}
	if !yes {
		if err := showImpact(confirmation); err != nil {
			return done, err
		}
		if err := con.Confirm(output.Escape(confirmation+" needs a confirmation: "+reason+"."), "--yes"); err != nil {
			return done, err
		}
	}
	return do(confirmation)
}

// yesFlag adds the flag that answers confirmEntry with yes.
func yesFlag(c *cobra.Command, yes *bool) {
	c.Flags().BoolVar(yes, "yes", false, "apply it without asking, also where the pattern is broad")
}

// broadFlag adds the flag that answers confirmPolicy with yes.
func broadFlag(c *cobra.Command, yes *bool) {
	c.Flags().BoolVar(yes, "yes", false, "apply it without asking, also where it newly refuses every request of a broad pattern or keys leave a policy for another or none")
}

// completionTimeout bounds how long a shell waits for names from the server.
const completionTimeout = 2 * time.Second

// namesOf returns the names of one kind that the server knows.
type namesOf func(ctx context.Context, server *client.Client) ([]string, error)

// collect returns the names of what list returns.
func collect[T any](list func(context.Context, *client.Client) ([]T, error), name func(T) string) namesOf {
	return func(ctx context.Context, server *client.Client) (names []string, err error) {
		found, err := list(ctx, server)
		for _, item := range found {
			names = append(names, name(item))
		}
		return names, err
	}
}

var (
	namesOfPolicies = collect(func(ctx context.Context, server *client.Client) ([]wire.Policy, error) {
		return client.Items(ctx, server, wire.ListPolicies, wire.PolicyList{})
	},
		func(p wire.Policy) string { return p.Name })
	userNames = collect(func(ctx context.Context, server *client.Client) ([]wire.User, error) {
		return client.Items(ctx, server, wire.ListUsers, wire.UserList{})
	},
		func(u wire.User) string { return u.Name })
	tokenNames = collect(func(ctx context.Context, server *client.Client) ([]wire.Token, error) {
		return client.Items(ctx, server, wire.ListTokens, wire.TokenList{State: "active"})
	}, func(t wire.Token) string { return t.Name })
	jobNames = collect(func(ctx context.Context, server *client.Client) ([]wire.Job, error) {
		return client.Items(ctx, server, wire.ListJobs, wire.None{})
	},
		func(j wire.Job) string { return j.Name })
	reportIDs = collect(func(ctx context.Context, server *client.Client) ([]wire.Report, error) {
		found, err := client.Pages(ctx, server, wire.ListReports, wire.ReportList{}, maxCompletions)
		return found.Items, err
	},
		func(r wire.Report) string { return r.ID })
	blockPatterns     = patternsOf(wire.Blocks)
	exemptionPatterns = patternsOf(wire.Exemptions)
)

// maxCompletions bounds the patterns that a shell offers.
const maxCompletions = 1000

func patternsOf(ops *wire.EntryOps) namesOf {
	return collect(func(ctx context.Context, server *client.Client) ([]wire.Entry, error) {
		found, err := client.Pages(ctx, server, ops.List, wire.EntryList{}, maxCompletions)
		return found.Items, err
	}, func(e wire.Entry) string { return e.Pattern })
}

// argumentNames are the commands whose first argument is completed from the server.
var argumentNames = map[string]namesOf{
	"policy show": namesOfPolicies, "policy explain": namesOfPolicies, "policy try": namesOfPolicies, "policy set": namesOfPolicies, "policy delete": namesOfPolicies,
	"policy versions": namesOfPolicies, "policy diff": namesOfPolicies, "policy rollback": namesOfPolicies, "escalation resume": namesOfPolicies,
	"user set-role": userNames, "user disable": userNames, "user enable": userNames, "user set-password": userNames, "user delete": userNames,
	"token rotate": tokenNames, "token delete": tokenNames, "job run": jobNames, "job runs": jobNames, "report show": reportIDs,
	"block show": blockPatterns, "block edit": blockPatterns, "block delete": blockPatterns,
	"exemption show": exemptionPatterns, "exemption edit": exemptionPatterns, "exemption delete": exemptionPatterns,
}

// takesFiles matches the arguments in a command's usage, and the helps of flags, that are names of
// files.
var takesFiles = regexp.MustCompile(`FILE|COMMAND|\bfile\b|\bfolder\b|\bdirectory\b|\baccess log\b`)

// enumeration matches the values of a flag in its help: "csv, json or html", each perhaps with a
// remark in parentheses, at the beginning, behind "only" or behind a colon.
var enumeration = regexp.MustCompile(`(?:^|^only |: )([a-z0-9_]+(?: \([^)]*\))?(?:, [a-z0-9_]+(?: \([^)]*\))?)* or [a-z0-9_]+)(?:$|;| \()`)

var remark = regexp.MustCompile(` \([^)]*\)`)

// valuesOf returns the values that the help of a flag enumerates, nil for none.
func valuesOf(f *pflag.Flag) []string {
	found := enumeration.FindStringSubmatch(f.Usage)
	if found == nil {
		return nil
	}
	return strings.Split(strings.Replace(remark.ReplaceAllString(found[1], ""), " or ", ", ", 1), ", ")
}

// completeNames completes the arguments of the commands in argumentNames, and every --policy,
// with names from the server, and every flag whose help enumerates its values with these. It
// offers names of files only where one is expected.
func completeNames(c *cobra.Command, con *console.Console) {
	_, path, _ := strings.Cut(c.CommandPath(), " ")
	if names := argumentNames[path]; names != nil {
		c.ValidArgsFunction = fromServer(con, names)
	} else if c.ValidArgsFunction == nil && !c.HasSubCommands() && !takesFiles.MatchString(c.Use) {
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if _, has := c.GetFlagCompletionFunc(f.Name); has || f.Name == "policy" || f.NoOptDefVal != "" {
			return
		}
		if values := valuesOf(f); values != nil || !takesFiles.MatchString(f.Usage) {
			console.CompleteFlag(c, f.Name, values...)
		}
	})
	if c.Flags().Lookup("policy") != nil {
		// It fails only for a flag that already has a completion.
		_ = c.RegisterFlagCompletionFunc("policy", func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			return fromServer(con, namesOfPolicies)(c, nil, typed)
		})
	}
	for _, sub := range c.Commands() {
		completeNames(sub, con)
	}
}

// fromServer completes a command's first argument. Without a response it offers nothing. It
// omits names that a terminal would not show unchanged.
func fromServer(con *console.Console, names namesOf) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, typed string) (offered []string, _ cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
		defer cancel()
		_ = connected(con.AdminListener, console.Admin, func(_ *cobra.Command, server *client.Client, _ []string) error {
			found, err := names(ctx, server)
			for _, name := range found {
				if strings.HasPrefix(name, typed) && output.Escape(name) == name {
					offered = append(offered, name)
				}
			}
			return err
		})(c, nil)
		return offered, cobra.ShellCompDirectiveNoFileComp
	}
}
