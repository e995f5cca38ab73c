package cli

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func newKeySet(con *console.Console) *cobra.Command {
	var plan, note string
	var labels []string
	c := &cobra.Command{
		Use:   "set KEY",
		Short: "Set the plan, the labels and the note of a key",
		Long: `Set the plan, the labels and the note of a key. What is not named stays as it is; an empty
value removes it. Policies select the keys of a plan by the pattern plan:NAME, which comes
before their other patterns and after a pattern of the key alone. A concurrent change by
somebody else is never overwritten.`,
		Example: `admin key set token:abc --plan gold --label region=eu --note "Contract 17"
admin key set token:abc --plan=`,
		Args: cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			kept, err := client.Call(c.Context(), server, wire.GetProfile, wire.ByKey{Key: args[0]})
			var problem *wire.Problem
			if errors.As(err, &problem) && problem.Status == http.StatusNotFound {
				kept, err = wire.Profile{}, nil
			}
			if err != nil {
				return err
			}
			next := wire.ProfileRequest{Key: args[0], IfMatch: string(kept.ETag), Plan: string(kept.Plan), Labels: kept.Labels, Note: kept.Note}
			given := c.Flags().Changed
			if given("plan") {
				next.Plan = plan
			}
			if given("label") {
				next.Labels = nil
				for _, label := range labels {
					if label != "" {
						next.Labels = append(next.Labels, label)
					}
				}
			}
			if given("note") {
				next.Note = note
			}
			return printOne(con, profileColumns)(client.Call(c.Context(), server, wire.PutProfile, next))
		}),
	}
	flags := c.Flags()
	flags.StringVar(&plan, "plan", "", "the plan")
	flags.StringArrayVar(&labels, "label", nil, "a label, may be repeated; all labels are replaced")
	flags.StringVar(&note, "note", "", "a note, at most 500 bytes")
	c.MarkFlagsOneRequired("plan", "label", "note")
	return c
}

func newKeyDelete(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:     "delete KEY",
		Short:   "Delete the plan, the labels, the note and the limit of a key",
		Example: "admin key delete token:abc",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			return note(con, "Deleted the plan, labels, note and limit of %s. Its counts stay; see 'key reset'.", output.Escape(args[0]))(client.Call(c.Context(), server, wire.DeleteProfile, wire.DeleteProfileRequest{Key: args[0], IfMatch: client.AnyState}))
		}),
	}
}

func newKeyLimit(con *console.Console) *cobra.Command {
	var end bool
	var reason string
	var expiry endFlags
	c := &cobra.Command{
		Use:   "limit KEY [RULE]...",
		Short: "Give a key a limit of its own, or end it",
		Long: `Give a key a limit of its own: until it expires or is ended, its rules replace those of the
key's policy. Requests that were counted before still count. Blocks and exemptions still
apply, and so do policies with conditions or an outcome and those that a check names.`,
		Example: `admin key limit token:abc 5/s 1000/d --for 30d --reason "product launch"
admin key limit token:abc --end --reason "the launch is over"`,
		Args: cobra.MinimumNArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			switch {
			case end && len(args) > 1:
				return console.Usagef("--end takes no rules")
			case end:
				return printOne(con, profileColumns)(client.Call(c.Context(), server, wire.EndLimit, wire.EndLimitRequest{Key: args[0], Reason: reason}))
			case len(args) == 1:
				return console.Usagef("name at least one rule, for example 5/s, or --end")
			}
			if err := expiry.requireChoice(); err != nil {
				return err
			}
			return printOne(con, profileColumns)(client.Call(c.Context(), server, wire.PutLimit, wire.OwnLimitRequest{
				Key: args[0], Rules: args[1:], Reason: reason, ExpiresIn: expiry.in.Duration, ExpiresAt: expiry.at.Time,
			}))
		}),
	}
	c.Flags().BoolVar(&end, "end", false, "end the key's own limit")
	c.Flags().StringVar(&reason, "reason", "", "why; required for a limit")
	expiry.addWithPermanent(c, "the limit is active", "")
	c.MarkFlagsMutuallyExclusive("end", "for")
	c.MarkFlagsMutuallyExclusive("end", "until")
	c.MarkFlagsMutuallyExclusive("end", "permanent")
	return c
}

// addProfileFlags adds the flags that select keys by their profiles.
func addProfileFlags(c *cobra.Command, f *wire.ProfileFilter) {
	flags := c.Flags()
	flags.StringVar(&f.Plan, "plan", "", "only keys of this plan")
	flags.StringVar(&f.Label, "label", "", "only keys with this label")
	flags.StringVar(&f.Search, "search", "", "only keys or notes that contain this text")
	flags.BoolVar(&f.Limited, "limited", false, "only keys with a limit of their own")
}

func newKeyList(con *console.Console) *cobra.Command {
	var f wire.ProfileFilter
	c := pagedCommand(con, cobra.Command{
		Short:   "List keys with a plan, labels, a note or a limit of their own",
		Example: "admin key list --plan gold\nadmin key list --limited\nadmin key list --label region=eu --limit 0 -o csv",
	}, wire.ListProfiles, profileColumns, func() wire.ProfileList { return wire.ProfileList{ProfileFilter: f} })
	addProfileFlags(c, &f)
	return c
}

func newKeyPlans(con *console.Console) *cobra.Command {
	c := listCommand(con, cobra.Command{
		Short:   "List the plans, how many keys each has, and the policy that selects them",
		Example: "admin key plans",
	}, wire.ListPlans, planColumns, noFilter)
	c.Use = "plans"
	return c
}

func newKeyImport(con *console.Console) *cobra.Command {
	var format string
	var in wire.ProfileImportOf
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Set the plans, labels and notes of many keys from a file",
		Long: `Set the plans, labels and notes of up to a million keys from a file, - for standard input:
all or nothing, or with --skip-bad only the valid rows. A file is CSV with named columns
(key, plan, labels separated by spaces, note), or JSON. What a row leaves out is removed
from its key. Other keys, and limits of keys, stay as they are; rows of an export that have
only a limit are left out. A key may be in one row only.

--dry-run changes nothing and prints how many keys are new, replaced and unchanged, the
first of them, and the invalid rows. Plans that no policy applies to are named.`,
		Example: "admin key import customers.csv --dry-run\nadmin key import customers.csv\nadmin key export | admin key import - --format csv",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			media, err := mediaOf(args[0], format, "csv or json")
			if err != nil {
				return err
			}
			file, err := con.Open(args[0])
			if err != nil {
				return err
			}
			defer file.Close()
			did, err := sendFile(con, file, func(from io.Reader) (wire.ProfileImport, error) {
				return client.Upload(c.Context(), server, wire.ImportProfiles, in, from, media)
			})
			if err != nil {
				return err
			}
			if err := printProfileImport(con.Printer(), did); err != nil || !in.DryRun {
				return err
			}
			return foretell(did.Rows, did.Invalid, in.SkipBad, false)
		}),
	}
	c.Flags().StringVar(&format, "format", "", "csv or json; by the file's extension if omitted")
	c.Flags().BoolVar(&in.SkipBad, "skip-bad", false, "skip invalid rows instead of importing nothing")
	c.Flags().BoolVar(&in.DryRun, "dry-run", false, "print what would change without changing it, and exit as the import would")
	return c
}

func printProfileImport(p *output.Printer, did wire.ProfileImport) error {
	if p.Format != output.Table {
		return output.One(p, did, profileImportColumns)
	}
	if err := printRows(p, did, profileImportColumns, did.DryRun, did.InvalidRows, did.Invalid); err != nil {
		return err
	}
	if did.Limits > 0 {
		p.Sayf("%s a limit, which is not imported; 'key limit' gives a key one.", rowsText(did.Limits))
	}
	for _, plan := range did.Plans {
		if plan.Policy == "" {
			p.Sayf("No policy applies to plan:%s, which %s: such a plan changes nothing.", output.Escape(plan.Plan), rowsText(plan.Rows))
		}
	}
	if len(did.Changes) > 0 {
		p.Sayf("The keys that would change:")
	}
	for _, change := range did.Changes {
		was := "nothing"
		if change.Before != nil {
			was = profileText(change.Before)
		}
		p.Sayf("  line %d, %s: %s, now %s", change.Line, output.Escape(change.Key), profileText(&change.After), was)
	}
	if more := did.Created + did.Replaced - len(did.Changes); len(did.Changes) > 0 && more > 0 {
		p.Sayf("  And %d more.", more)
	}
	return nil
}

func rowsText(n int) string {
	if n == 1 {
		return "1 row has"
	}
	return fmt.Sprintf("%d rows have", n)
}

// profileText formats a profile on one line.
func profileText(p *wire.ProfileRequest) string {
	return output.Escape(strings.Join(slices.DeleteFunc([]string{p.Plan, strings.Join(p.Labels, " "), p.Note}, func(part string) bool { return part == "" }), ", "))
}

func newKeyExport(con *console.Console) *cobra.Command {
	var f wire.ProfileFilter
	c := &cobra.Command{
		Use:   "export",
		Short: "Write plans, labels and notes of keys as a file that import reads",
		Long: `Write the plans, labels and notes of keys as a file that 'key import' reads: CSV, or JSON
lines with -o json.`,
		Example: "admin key export > customers.csv\nadmin key export --plan gold -o json > gold.jsonl",
		Args:    cobra.NoArgs,
		RunE: online(con, func(c *cobra.Command, server *client.Client, _ []string) error {
			format := ""
			switch output.Format(con.Format) {
			case output.YAML:
				return console.Usagef("keys are exported as CSV or, with -o json, as JSON lines; for YAML see 'key list -o yaml'")
			case output.JSON:
				format = "json"
			}
			file, err := client.Open(c.Context(), server, wire.ExportProfiles, wire.ProfileExport{Format: format, ProfileFilter: f})
			if err != nil {
				return err
			}
			defer file.Close()
			_, err = io.Copy(con.Printer().Document(), file)
			return err
		}),
	}
	addProfileFlags(c, &f)
	return c
}

var profileColumns = output.Columns("key: Key, plan: Plan, labels: Labels, limit: Own limit, limit_expires_at: Until, note: Note (drop 1)", output.Cells[wire.Profile]{
	"labels": func(p wire.Profile) output.Cell { return output.Text(strings.Join(p.Labels, " ")) },
	"limit": func(p wire.Profile) output.Cell {
		if p.Limit == nil || !p.Limit.Active {
			return output.Cell{}
		}
		return output.Text(strings.Join(p.Limit.Rules, " "))
	},
	"limit_expires_at": func(p wire.Profile) output.Cell {
		if p.Limit == nil || !p.Limit.Active {
			return output.Cell{}
		}
		return output.TimeOr(p.Limit.ExpiresAt.Time, "permanent")
	},
})

var planColumns = output.Columns[wire.PlanCount]("plan: Plan, keys: Keys, policy: Policy")

var profileImportColumns = output.Columns[wire.ProfileImport](`rows: Rows, created: New, replaced: Replaced, unchanged: Unchanged, invalid: Invalid, dry_run,
	limits`)
