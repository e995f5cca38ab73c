package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/local"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func newPolicyExplain(con *console.Console) *cobra.Command {
	var paths []string
	c := &cobra.Command{
		Use:   "explain NAME | -f FILE...",
		Short: "Say in words what a policy does and how soon its limits are used up",
		Long: `Say in words what a policy does, how soon its limits are used up by a client that always
asks as early as allowed, and what is probably not meant. With -f the policies of a file are
explained before they are applied: also what they change, and whether that needs a
confirmation. It fails where applying the file would. Nothing is changed.`,
		Example: "admin policy explain default\nadmin policy explain -f policies.yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			if (len(paths) == 0) == (len(args) == 0) {
				return console.Usagef("give either the name of a policy or a file with -f")
			}
			if len(paths) == 0 {
				x, err := client.Call(c.Context(), server, wire.ExplainPolicy, wire.ByName{Name: args[0]})
				if err != nil {
					return err
				}
				return printEach(con, []wire.PolicyExplanation{x}, policyExplanationColumns, printPolicyExplanation)
			}
			drafts, err := local.ReadPolicies(con, paths...)
			if err != nil {
				return err
			}
			all := make([]wire.PolicyExplanation, len(drafts))
			for i, draft := range drafts {
				x, err := client.Call(c.Context(), server, wire.ExplainDraft, wire.PolicyDraft{Policy: draft.Name, PolicyRequest: draft})
				if err != nil {
					return err
				}
				all[i] = x
			}
			if err := printEach(con, all, policyExplanationColumns, printPolicyExplanation); err != nil {
				return err
			}
			// Policies that fit one by one may not fit together.
			if _, err := client.Call(c.Context(), server, wire.PlanPolicies, wire.PolicyPlanOf{PolicyFileRequest: wire.PolicyFileRequest{Policies: drafts}}); err != nil {
				return fmt.Errorf("the server would refuse it: %w", err)
			}
			return nil
		}),
	}
	draftFlag(c, &paths)
	return c
}

// draftFlag adds the flag that names policy files.
func draftFlag(c *cobra.Command, paths *[]string) {
	c.Flags().StringArrayVarP(paths, "file", "f", nil, "a policy file instead of a name, - for standard input; may be repeated")
}

// printEach prints all as text, separated by empty lines, or in the requested format.
func printEach[T any](con *console.Console, all []T, columns []output.Column[T], print func(*console.Console, *output.Printer, T) error) error {
	p := con.Printer()
	if p.Format != output.Table {
		return output.List(p, all, columns)
	}
	for i, one := range all {
		if i > 0 {
			p.Sayf("")
		}
		if err := print(con, p, one); err != nil {
			return err
		}
	}
	return nil
}

func printPolicyExplanation(con *console.Console, p *output.Printer, x wire.PolicyExplanation) error {
	if x.Version == 0 {
		p.Sayf("policy %s, new", output.Escape(x.Name))
	} else {
		p.Sayf("policy %s, version %d", output.Escape(x.Name), x.Version)
	}
	if x.Applies != "" {
		p.Sayf("  %s", output.Escape(string(x.Applies)))
	}
	p.Sayf("  %s", strings.TrimSpace(x.Limits+" "+string(x.Details)))
	p.Sayf("  Counted by %s.", x.Counting)
	if x.Advice != "" {
		p.Sayf("  %s", string(x.Advice))
	}
	if len(x.Changes) > 0 {
		p.Sayf("  Applying it changes:")
		for _, line := range wire.Lines(x.Changes, output.Escape) {
			p.Sayf("    %s", line)
		}
	}
	if x.ResetsCounts != "" {
		p.Sayf("  It resets the counts. %s", string(x.ResetsCounts))
	}
	if x.Problem != "" {
		p.Sayf("  It cannot be saved: %s", output.Escape(string(x.Problem)))
	}
	if x.ConfirmReason != "" {
		p.Sayf("  It needs a confirmation: %s.", output.Escape(string(x.ConfirmReason)))
	}
	con.Warn(x.Warnings)
	return nil
}

var policyExplanationColumns = output.Columns[wire.PolicyExplanation]("name, version, limits, details, counting, advice, warnings, resets_counts, confirm_reason, problem")

func newPolicyTry(con *console.Console) *cobra.Command {
	var paths []string
	var log string
	var last durationFlag
	c := &cobra.Command{
		Use:   "try NAME | -f FILE...",
		Short: "Replay recorded traffic or a log through a policy before it is applied",
		Long: `Replay the traffic that the server recorded, or with --log an access log of at most 64 MB,
through the policies with this one in the place of its active version, and compare what
all policies together would have refused with it and without. With -f each policy of a file
is tried by itself. A policy in shadow mode is tried as if it enforced. Nothing is changed
and no request is refused. 'backtest' takes logs of any size and needs no server.`,
		Example: "admin policy try login --last 7d\nadmin policy try -f policies.yaml --log access.log.gz",
		Args:    cobra.MaximumNArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			drafts, err := draftsOf(c.Context(), con, server, args, paths)
			if err != nil {
				return err
			}
			all := make([]wire.PolicyTrial, len(drafts))
			for i, draft := range drafts {
				trial, err := tryPolicy(c.Context(), con, server, draft, log, last.Duration)
				if err != nil {
					return err
				}
				all[i] = trial
			}
			return printEach(con, all, trialColumns, printTrial)
		}),
	}
	draftFlag(c, &paths)
	c.Flags().StringVar(&log, "log", "", "an access log to replay instead of the recorded traffic, plain or gzip, - for standard input")
	c.Flags().Var(&last, "last", "how much of the recorded traffic to replay, for example 7d; 24h if omitted")
	c.MarkFlagsMutuallyExclusive("log", "last")
	return c
}

// draftsOf returns the policies of a file, or the active version of the policy named in args.
func draftsOf(ctx context.Context, con *console.Console, server *client.Client, args, paths []string) ([]wire.PolicyRequest, error) {
	if (len(paths) == 0) == (len(args) == 0) {
		return nil, console.Usagef("give either the name of a policy or a file with -f")
	}
	if len(paths) > 0 {
		return local.ReadPolicies(con, paths...)
	}
	policy, err := client.Call(ctx, server, wire.GetPolicy, wire.ByName{Name: args[0]})
	if err != nil {
		return nil, err
	}
	return []wire.PolicyRequest{policy.PolicyRequest}, nil
}

func tryPolicy(ctx context.Context, con *console.Console, server *client.Client, draft wire.PolicyRequest, log string, last wire.Duration) (wire.PolicyTrial, error) {
	if log == "" {
		return client.Call(ctx, server, wire.TryPolicy, wire.PolicyTrialOf{Policy: draft.Name, Last: last, PolicyRequest: draft})
	}
	file, err := con.Open(log)
	if err != nil {
		return wire.PolicyTrial{}, err
	}
	defer file.Close()
	return client.Backtest(ctx, server, draft, file.Name, file)
}

func printTrial(con *console.Console, p *output.Printer, t wire.PolicyTrial) error {
	if t.Requests == 0 {
		p.Sayf("policy %s: there were no requests to try it on", output.Escape(t.Name))
		return nil
	}
	p.Sayf("policy %s: would have refused %d of %d requests; with it all policies together %d instead of %d", output.Escape(t.Name), t.RefusedByDraft, t.Requests, t.Refused, t.RefusedNow)
	if len(t.Rules) > 0 {
		if err := output.List(p, t.Rules, triedRuleColumns); err != nil {
			return err
		}
	}
	for _, part := range []struct {
		text string
		keys wire.TriedKeys
	}{
		{"Newly refused: %d requests of %d keys", t.NewlyRefused}, {"Refused more: %d more requests of %d keys", t.MoreRefused},
		{"Refused less: %d fewer requests of %d keys", t.LessRefused}, {"No longer refused: %d requests of %d keys", t.NewlyAllowed},
	} {
		if part.keys.Keys == 0 {
			continue
		}
		p.Sayf(part.text, part.keys.Requests, part.keys.Keys)
		if err := output.List(p, part.keys.Top, triedKeyColumns); err != nil {
			return err
		}
	}
	if t.Trap != nil {
		if err := printTrap(con, p, *t.Trap); err != nil {
			return err
		}
	}
	con.Warn(t.Warnings)
	if t.Log != nil && t.Log.Invalid > 0 {
		con.Notef("%d of %d lines contain no readable request.", t.Log.Invalid, t.Log.Lines)
	}
	if t.Estimate {
		con.Notef("This is an estimate: only a sample of the traffic is recorded.")
	}
	return nil
}

var trialColumns = output.Columns[wire.PolicyTrial](`name, requests, refused, refused_now, newly_refused=newly_refused.requests,
	newly_refused_keys=newly_refused.keys, more_refused=more_refused.requests, more_refused_keys=more_refused.keys,
	less_refused=less_refused.requests, less_refused_keys=less_refused.keys, newly_allowed=newly_allowed.requests,
	newly_allowed_keys=newly_allowed.keys, estimate, refused_by_draft`)

var triedRuleColumns = output.Columns("rule: Rule, active: Active (right), draft: Draft (right)", output.Cells[wire.TriedRule]{
	"active": func(r wire.TriedRule) output.Cell { return countOrNone(r.Active) },
	"draft":  func(r wire.TriedRule) output.Cell { return countOrNone(r.Draft) },
})

// countOrNone returns the cell of a count that may be missing.
func countOrNone(n *int64) output.Cell {
	if n == nil {
		return output.Words("-", "")
	}
	return output.Words(strconv.FormatInt(*n, 10), strconv.FormatInt(*n, 10))
}

var triedKeyColumns = output.Columns[wire.TriedKey]("key: Key (cut), requests: Requests, refused_now: Active, refused: Draft")
