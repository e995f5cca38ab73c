package cli

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	v1 "github.com/stint-dev/stint/internal/api/v1"
	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/cli/policyfile"
)

func newApply(a *app) *cobra.Command {
	var path string
	var dryRun, prune bool
	c := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Make the policies what a file says",
		Long: `Make the policies what a file says. The difference is shown first. Policies that already
stand as the file says are left alone, so that a second run changes nothing; those that
the file does not name stay, unless --prune deletes them. The file is YAML or JSON, as
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
      escalation:
        offences: 100
        within: 10m
        block: 1h
        factor: 2
        cap: 1d
        forget_after: 7d

The exit code is 0 when everything is as the file says, also when it had to be changed;
with --dry-run it is 5 where there is something to change, so that CI can tell.`,
		Example: "admin apply -f policies.yaml --dry-run\nadmin apply -f policies.yaml --prune\nadmin export | admin apply -f -",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			wanted, err := a.readPolicies(path)
			if err != nil {
				return err
			}
			return a.apply(c, wanted, dryRun, prune)
		},
	}
	c.Flags().StringVarP(&path, "file", "f", "", "the file, - for standard input")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "show the difference and change nothing")
	c.Flags().BoolVar(&prune, "prune", false, "delete the policies that the file does not name")
	mustHave(c, "file")
	return c
}

func newExport(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "export",
		Short: "Write all policies as the file that apply reads",
		Long: `Write all policies as the file that 'apply' reads, in canonical form and sorted by name, so
that the same policies always make the same file. With -o json it is JSON, which 'apply'
reads as well.`,
		Example: "admin export > policies.yaml",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			policies, err := client.Policies(c.Context())
			if err != nil {
				return err
			}
			requests := make([]v1.PolicyRequest, len(policies))
			for i := range policies {
				if requests[i], err = policyfile.Canonical(policies[i].Request()); err != nil {
					return err
				}
			}
			switch p := a.printer(); p.Format {
			case output.CSV:
				return usagef("policies are exported as YAML or, with -o json, as JSON; for CSV see 'policy list -o csv'")
			case output.JSON:
				return p.JSON(struct {
					Policies []v1.PolicyRequest `json:"policies"`
				}{requests})
			default:
				return policyfile.Write(p.Out, requests)
			}
		},
	}
}

// readPolicies reads a policy file, "-" being standard input.
func (a *app) readPolicies(path string) ([]v1.PolicyRequest, error) {
	in, name := io.Reader(a.sys.Stdin), "standard input"
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, usagef("%w", err)
		}
		defer file.Close()
		in, name = file, filepath.Base(path)
	}
	policies, err := policyfile.Read(in, name)
	if err != nil {
		return nil, usagef("%w", err)
	}
	return policies, nil
}

// policyStep is one change that apply makes. Before is null for a policy that
// is created, After for one that is deleted.
type policyStep struct {
	Name    string            `json:"name"`
	Action  string            `json:"action"` // create, replace, delete or none
	Before  *v1.PolicyRequest `json:"before"`
	After   *v1.PolicyRequest `json:"after"`
	version int64             // of before
}

// The actions of a policyStep.
const (
	stepCreate  = "create"
	stepReplace = "replace"
	stepDelete  = "delete"
	stepNone    = "none"
)

// apply makes the policies what wanted says, or only shows it.
func (a *app) apply(c *cobra.Command, wanted []v1.PolicyRequest, dryRun, prune bool) error {
	from, err := a.client()
	if err != nil {
		return err
	}
	standing, err := from.Policies(c.Context())
	if err != nil {
		return err
	}
	steps, err := planSteps(standing, wanted, prune)
	if err != nil {
		return err
	}
	if err := a.printSteps(steps); err != nil {
		return err
	}
	changes := keep(steps, func(s policyStep) bool { return s.Action != stepNone })
	switch {
	case len(changes) == 0:
		a.notef("Nothing to change: %d policies stand as the file says.", len(wanted))
		return nil
	case dryRun:
		a.notef("%d to change; nothing was changed, since this is a dry run.", len(changes))
		return &exitError{code: Different}
	}
	return a.takeSteps(c, from, changes)
}

// planSteps compares what stands with what is wanted, the policies that go
// last: a new policy that takes over their patterns waits for them.
func planSteps(standing []v1.Policy, wanted []v1.PolicyRequest, prune bool) ([]policyStep, error) {
	var steps, deletions []policyStep
	known := map[string]bool{}
	for _, p := range standing {
		before, err := policyfile.Canonical(p.Request())
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(wanted, func(w v1.PolicyRequest) bool { return w.Name == p.Name })
		known[p.Name] = true
		switch {
		case at >= 0 && policyfile.Equal(before, wanted[at]):
			steps = append(steps, policyStep{p.Name, stepNone, &before, &wanted[at], p.Version})
		case at >= 0:
			steps = append(steps, policyStep{p.Name, stepReplace, &before, &wanted[at], p.Version})
		case prune:
			deletions = append(deletions, policyStep{p.Name, stepDelete, &before, nil, p.Version})
		}
	}
	for i := range wanted {
		if !known[wanted[i].Name] {
			steps = append(steps, policyStep{wanted[i].Name, stepCreate, nil, &wanted[i], 0})
		}
	}
	return append(steps, deletions...), nil
}

func (a *app) printSteps(steps []policyStep) error {
	p := a.printer()
	switch p.Format {
	case output.JSON:
		return p.JSON(steps)
	case output.CSV:
		return output.List(p, steps, []output.Column[policyStep]{
			{Name: "name", Cell: func(s policyStep) output.Cell { return output.Text(s.Name) }},
			{Name: "action", Cell: func(s policyStep) output.Cell { return output.Text(s.Action) }},
		})
	}
	for _, s := range steps {
		if s.Action == stepNone {
			continue
		}
		p.Sayf("%s policy %s", s.Action, output.Escape(s.Name))
		for _, line := range diffPolicies(s.Before, s.After) {
			p.Sayf("  %s", line)
		}
	}
	return nil
}

// takeSteps makes the changes. One that a pattern of another policy stands in
// the way of is put off until the others are done.
func (a *app) takeSteps(c *cobra.Command, to *client.Client, steps []policyStep) error {
	done, total := 0, len(steps)
	for len(steps) > 0 {
		var put []policyStep
		var last error
		for _, s := range steps {
			err := a.takeStep(c, to, s)
			var problem *v1.Problem
			switch {
			case err == nil:
				done++
			case errors.As(err, &problem) && problem.Status == http.StatusConflict:
				put, last = append(put, s), err
			default:
				return fmt.Errorf("policy %s (%d of %d changes were made): %w", s.Name, done, total, err)
			}
		}
		if len(put) == len(steps) {
			return fmt.Errorf("policy %s (%d of %d changes were made): %w", put[len(put)-1].Name, done, total, last)
		}
		steps = put
	}
	a.notef("Done: %d changed.", done)
	return nil
}

func (a *app) takeStep(c *cobra.Command, to *client.Client, s policyStep) error {
	if s.Action == stepDelete {
		return to.DeletePolicy(c.Context(), s.Name, s.version)
	}
	stored, err := to.PutPolicy(c.Context(), *s.After, s.version)
	if err != nil {
		return err
	}
	a.warn(stored.Warnings)
	return nil
}
