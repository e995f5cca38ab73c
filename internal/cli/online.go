package cli

import (
	"errors"
	"net/url"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

// run is the body of a command that calls a listener.
type run func(c *cobra.Command, server *client.Client, args []string) error

// online returns the RunE of a command that calls the admin listener.
func online(con *console.Console, do run) func(*cobra.Command, []string) error {
	return connected(con.AdminListener, do)
}

// checkOnline returns the RunE of a command that calls the check listener.
func checkOnline(con *console.Console, do run) func(*cobra.Command, []string) error {
	return connected(con.CheckListener, do)
}

func connected(listener func() (base, token string, err error), do run) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		base, token, err := listener()
		if err != nil {
			return err
		}
		server, err := client.New(base, token)
		if err != nil {
			return console.Usagef("%w", err)
		}
		return do(c, server, args)
	}
}

// setIf sets a query parameter unless the value is empty.
func setIf(query url.Values, name, value string) {
	if value != "" {
		query.Set(name, value)
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

// printListing prints a listing, and a note if rows were left out.
func printListing[T any](con *console.Console, found client.Listing[T], columns []output.Column[T]) error {
	if err := printItems(con, found.Items, columns); err != nil {
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
	if !errors.As(err, &problem) || problem.Code != "confirmation_required" {
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
	c.Flags().BoolVar(yes, "yes", false, "apply it without asking, also where it newly refuses every request of a broad pattern or leaves keys without a policy")
}
