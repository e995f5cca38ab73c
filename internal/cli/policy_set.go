package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/local"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/policyfile"
	"github.com/stint-dev/stint/internal/wire"
)

func newApply(con *console.Console) *cobra.Command {
	var path string
	var dryRun, prune, yes bool
	c := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Apply a policy file",
		Long: `Apply a policy file. The difference is shown first. Policies that
already equal the file are not changed, so a second run changes nothing. Policies that are
not in the file stay, unless --prune deletes them. The file is YAML or JSON, as
'export' writes it, with defaults filled in for what it leaves out:

  policies:
    - name: default
      match: ["*"]
      rules: [1/1s, 20/1m, 200/1h, 800/1d]
    - name: search
      match: ["token:*"]
      rules: [5/10s]
      mode: shadow            # enforce, shadow or off
      on_failure: local       # local, allow or deny
      algorithm: sorted_set_log
      options: {count_refused: true}
      escalation:
        threshold: 100
        window: 10m
        duration: 1h
        factor: 2
        max_duration: 1d
        decay_after: 7d

The exit code is 0 when everything is as the file says, also when it had to be changed;
with --dry-run it is 5 if there are changes to apply, so that CI can react.`,
		Example: "admin apply -f policies.yaml --dry-run\nadmin apply -f policies.yaml --prune\nadmin export | admin apply -f -",
		Args:    cobra.NoArgs,
		RunE: online(con, func(c *cobra.Command, server *client.Client, _ []string) error {
			wanted, err := local.ReadPolicies(con, path)
			if err != nil {
				return err
			}
			return applyPolicies(c, con, server, wanted, dryRun, prune, yes)
		}),
	}
	c.Flags().StringVarP(&path, "file", "f", "", "the policy file, - for standard input")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print the changes without applying them")
	c.Flags().BoolVar(&prune, "prune", false, "delete policies that are not in the file")
	broadFlag(c, &yes)
	requireFlag(c, "file")
	return c
}

func newExport(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "export",
		Short: "Write all policies as a file for apply",
		Long: `Write all policies as the file that 'apply' reads, in canonical form and sorted by name, so
that the same policies always make the same file. With -o json it is JSON, which 'apply'
reads as well.`,
		Example: "admin export > policies.yaml",
		Args:    cobra.NoArgs,
		RunE: online(con, func(c *cobra.Command, server *client.Client, _ []string) error {
			policies, err := server.Policies.List(c.Context())
			if err != nil {
				return err
			}
			requests := make([]wire.PolicyRequest, len(policies))
			for i := range policies {
				if requests[i], err = policyfile.Canonical(policies[i].Request()); err != nil {
					return err
				}
			}
			switch p := con.Printer(); p.Format {
			case output.CSV:
				return console.Usagef("policies are exported as YAML or, with -o json, as JSON; for CSV see 'policy list -o csv'")
			case output.JSON:
				return p.JSON(struct {
					Policies []wire.PolicyRequest `json:"policies"`
				}{requests})
			default:
				return policyfile.Write(p.Out, requests)
			}
		}),
	}
}

// applyPolicies makes the policies what wanted says, or only shows it.
func applyPolicies(c *cobra.Command, con *console.Console, server *client.Client, wanted []wire.PolicyRequest, dryRun, prune, yes bool) error {
	current, err := server.Policies.List(c.Context())
	if err != nil {
		return err
	}
	plan, err := policyfile.Plan(current, wanted, prune)
	if err != nil {
		return err
	}
	if err := printPlan(con, plan); err != nil {
		return err
	}
	changes := 0
	for _, change := range plan {
		if change.Action != wire.PolicyKeep {
			changes++
		}
	}
	switch {
	case changes == 0:
		con.Notef("No changes: %s already as the file says.", output.Amount(len(wanted), "policy is", "policies are"))
		return nil
	case dryRun:
		con.Notef("%d to change. Dry run: nothing was changed.", changes)
		return &console.ExitError{Code: console.Different}
	}
	request := wire.PolicyFileRequest{Policies: wanted, Expect: map[string]int64{}}
	for _, p := range current {
		request.Expect[p.Name] = p.Version
	}
	done, err := confirmPolicy(con, yes, func(confirm string) (*wire.PolicyPlan, error) {
		return server.Policies.Apply(c.Context(), request, prune, confirm)
	})
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	con.Warn(done.Warnings)
	con.Notef("%d changed.", changes)
	return nil
}

func printPlan(con *console.Console, plan []wire.PolicyChange) error {
	p := con.Printer()
	switch p.Format {
	case output.JSON:
		return p.JSON(plan)
	case output.CSV:
		return output.List(p, plan, []output.Column[wire.PolicyChange]{
			{Name: "name", Cell: func(c wire.PolicyChange) output.Cell { return output.Text(c.Name) }},
			{Name: "action", Cell: func(c wire.PolicyChange) output.Cell { return output.Text(c.Action) }},
		})
	}
	for _, c := range plan {
		if c.Action == wire.PolicyKeep {
			continue
		}
		p.Sayf("%s policy %s", c.Action, output.Escape(c.Name))
		for _, line := range wire.Lines(c.Fields, output.Escape) {
			p.Sayf("  %s", line)
		}
	}
	return nil
}

// parseWhen reads conditions such as "path=/login*".
func parseWhen(texts []string) (wire.PolicyWhen, error) {
	var lists [4][]string
	for _, text := range texts {
		name, pattern, found := strings.Cut(text, "=")
		at := slices.Index(wire.WhenNames(), name)
		if !found || at < 0 {
			return wire.PolicyWhen{}, console.Usagef("--when %q is no condition; write one of %s, an equals sign and a pattern, for example path=/login*",
				text, strings.Join(wire.WhenNames(), ", "))
		}
		lists[at] = append(lists[at], pattern)
	}
	return wire.WhenOf(lists), nil
}

// whenTexts returns conditions as parseWhen reads them.
func whenTexts(w wire.PolicyWhen) []string {
	var texts []string
	for i, patterns := range w.Lists() {
		for _, p := range patterns {
			texts = append(texts, wire.WhenNames()[i]+"="+p)
		}
	}
	return texts
}
