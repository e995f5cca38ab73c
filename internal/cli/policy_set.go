package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/local"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/policyfile"
	"github.com/stint-dev/stint/internal/presets"
	"github.com/stint-dev/stint/internal/wire"
)

func init() { addCommands(enforce, newApply, newPreset, newExport, newImport) }

func newApply(con *console.Console) *cobra.Command {
	var paths, names []string
	var f applyFlags
	c := &cobra.Command{
		Use:   "apply {-f FILE | --preset NAME}...",
		Short: "Apply policy files or presets",
		Long: `Apply a policy file. The differences are shown first. Policies that already equal the file
are not changed, so a second run changes nothing. Policies that are not in the file stay,
unless --prune deletes them. The file is YAML or JSON, as 'export' writes it; what it omits
gets its default:

  policies:
    - name: default
      match: ["*"]
      rules: [1/1s, 20/1m, 200/1h, 800/1d]
    - name: search
      match: ["token:*"]
      rules: [5/10s]
      mode: shadow            # enforce, shadow or off
      on_failure: local       # local, allow or deny
      on_limit: limit         # or block: block the key at once; or challenge it
      algorithm: sorted_set_log
      options: {count_refused: true}
      escalation:
        threshold: 100
        window: 10m
        duration: 1h
        factor: 2
        max_duration: 1d
        decay_after: 7d

With --preset it applies a preset, see 'preset list'. With --shadow the policies only count
what they would refuse. A policy that enforces now stays as it is: its draft is made beside
it, see 'policy draft'. Several files or presets are applied as one.

The exit code is 0 if the policies equal the file, whether or not anything was changed. With
--dry-run it is 5 if there are changes to apply, for use in CI. Otherwise a dry run exits as
the run would: it fails where the server would refuse the file, and where it would ask.`,
		Example: "admin apply -f policies.yaml --dry-run\nadmin apply -f policies.yaml --prune\nadmin export | admin apply -f -\n" +
			"admin apply --preset website --preset traps --shadow",
		Args: cobra.NoArgs,
		RunE: online(con, func(c *cobra.Command, server *client.Client, _ []string) error {
			wanted, err := local.ReadPolicies(con, paths...)
			if err != nil {
				return err
			}
			for _, name := range names {
				policies, err := readPreset(name)
				if err != nil {
					return err
				}
				wanted = append(wanted, policies...)
			}
			return applyPolicies(c, con, server, wanted, f)
		}),
	}
	c.Flags().StringArrayVarP(&paths, "file", "f", nil, "a policy file, - for standard input; may be repeated")
	c.Flags().StringSliceVar(&names, "preset", nil, "a preset, may be repeated: "+strings.Join(presets.Names(), ", "))
	c.Flags().BoolVar(&f.shadow, "shadow", false, "apply all policies in shadow mode: they refuse nobody; in place of a policy that enforces now, its draft is made")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "print the changes without applying them")
	c.Flags().BoolVar(&f.prune, "prune", false, "delete policies that are in none of the files")
	broadFlag(c, &f.yes)
	c.MarkFlagsOneRequired("file", "preset")
	c.MarkFlagsMutuallyExclusive("file", "preset")
	return c
}

func newImport(con *console.Console) *cobra.Command {
	return local.NewImport(con, func(c *cobra.Command, policies []wire.PolicyRequest, shadow, yes bool) error {
		return online(con, func(c *cobra.Command, server *client.Client, _ []string) error {
			return applyPolicies(c, con, server, policies, applyFlags{shadow: shadow, yes: yes})
		})(c, nil)
	})
}

func newPreset(con *console.Console) *cobra.Command {
	c := &cobra.Command{
		Use:   "preset",
		Short: "Show the presets, which are policy files that Stint ships",
		Long: `Show the presets: policy files that Stint ships, with policies for common cases and lists of
paths that only scanners request. 'apply --preset NAME' applies one. Its policies are then
edited and deleted like all others.`,
		Example: "admin preset show website\nadmin apply --preset website --dry-run",
	}
	c.AddCommand(&cobra.Command{
		Use:     "list",
		Short:   "List the presets",
		Example: "admin preset list",
		Args:    cobra.NoArgs,
		RunE: online(con, func(c *cobra.Command, server *client.Client, _ []string) error {
			all, err := client.Items(c.Context(), server, wire.ListPresets, wire.None{})
			if err != nil {
				return err
			}
			return output.List(con.Printer(), all, output.Columns("name: Preset, title: Title, policies: Policies", output.Cells[wire.Preset]{
				"policies": func(p wire.Preset) output.Cell { return output.Text(policyNames(p.Policies)) },
			}))
		}),
	}, &cobra.Command{
		Use:     "show NAME",
		Short:   "Print a preset as a policy file",
		Long:    "Print a preset with its comments as a policy file, to be changed and given to 'apply -f'.\nWith -o json it is JSON without the comments, which 'apply' reads as well.",
		Example: "admin preset show website > policies.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := local.FindPreset(args[0])
			if err != nil {
				return err
			}
			switch output.Format(con.Format) {
			case output.CSV:
				return console.Usagef("a preset is printed as YAML or, with -o json, as JSON")
			case output.JSON:
				policies, err := policyfile.Read(bytes.NewReader(p.Text), p.Name)
				if err != nil {
					return err
				}
				return con.Printer().JSON(struct {
					Policies []wire.PolicyRequest `json:"policies"`
				}{policies})
			}
			_, err = con.Printer().Document().Write(p.Text)
			return err
		},
	}, newPresetPreview(con))
	return c
}

func newPresetPreview(con *console.Console) *cobra.Command {
	var last durationFlag
	c := &cobra.Command{
		Use:   "preview NAME",
		Short: "Show what the traps of a preset would have refused",
		Long: `Show what each path of the traps of a preset would have refused in the traffic that the
server recorded, which keys sent it, and how many of these keys also had other requests
that were allowed, as people have. Nothing is changed and no request is refused.
'policy try -f' shows the same for a list of your own, and 'backtest' replays a log.`,
		Example: "admin preset preview traps\nadmin preset preview traps-php --last 1h",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			preview, err := client.Call(c.Context(), server, wire.PreviewPreset, wire.PresetPreviewOf{Name: args[0], Last: last.Duration})
			if err != nil {
				return err
			}
			if len(preview.Traps) == 0 {
				con.Notef("The preset %s has no trap.", output.Escape(preview.Name))
			}
			return printEach(con, preview.Traps, trapColumns, printTrap)
		}),
	}
	c.Flags().Var(&last, "last", "how much of the recorded traffic to look at, for example 1h; 24h if omitted")
	return c
}

func printTrap(con *console.Console, p *output.Printer, t wire.TrapPreview) error {
	if t.FirstAt.IsZero() {
		p.Sayf("trap %s", output.Escape(t.Policy))
	} else {
		p.Sayf("trap %s, of what was recorded from %s to %s:", output.Escape(t.Policy), t.FirstAt, t.LastAt)
	}
	if t.WithPath > 0 {
		verb := "were"
		if t.RefusedNow == 1 {
			verb = "was"
		}
		p.Sayf("It would have refused %d of %d requests, of %d of %d keys, and blocked %d of these keys. %d of the requests %s refused anyway.", t.Caught, t.Requests, t.CaughtKeys, t.Keys, t.BlockedKeys, t.RefusedNow, verb)
	}
	if t.Caught > 0 {
		p.Sayf("Other requests of the refused keys that were allowed: %d, of %d keys.", t.Other, t.OtherKeys)
		caught := slices.DeleteFunc(slices.Clone(t.Entries), func(e wire.TrapEntry) bool { return e.Requests == 0 })
		if err := output.List(p, caught, trapEntryColumns); err != nil {
			return err
		}
		p.Sayf("Paths that would have refused nothing: %d.", len(t.Entries)-len(caught))
	}
	for _, part := range []struct {
		text string
		keys []wire.TrappedKey
	}{{"Refused most:", t.Top}, {"Look at these first, most other requests:", t.TopOther}} {
		if len(part.keys) == 0 {
			continue
		}
		p.Sayf("%s", part.text)
		if err := output.List(p, part.keys, trappedKeyColumns); err != nil {
			return err
		}
	}
	if t.Note != "" {
		con.Notef("%s", output.Escape(string(t.Note)))
	}
	noteSample(con, t.SampleRatio)
	return nil
}

var trapColumns = output.Columns[wire.TrapPreview]("policy, requests, with_path, caught, caught_keys, other_keys, blocked_keys, note")

var trapEntryColumns = output.Columns[wire.TrapEntry]("path: Path, requests: Requests, keys: Keys, other_keys: With others")

var trappedKeyColumns = output.Columns[wire.TrappedKey]("key: Key (cut), caught: Caught, other: Other, blocked: Blocked")

func policyNames(all []wire.PolicyRequest) string {
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = p.Name
	}
	return strings.Join(names, " ")
}

// readPreset returns the policies of a file that Stint ships.
func readPreset(name string) ([]wire.PolicyRequest, error) {
	p, err := local.FindPreset(name)
	if err != nil {
		return nil, err
	}
	return policyfile.Read(bytes.NewReader(p.Text), name)
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
			format := "yaml"
			switch output.Format(con.Format) {
			case output.CSV:
				return console.Usagef("policies are exported as YAML or, with -o json, as JSON; for CSV see 'policy list -o csv'")
			case output.JSON:
				format = "json"
			}
			file, err := client.Open(c.Context(), server, wire.ExportPolicies, wire.PolicyExport{Format: format})
			if err != nil {
				return err
			}
			defer file.Close()
			if format == "json" {
				var all wire.PolicyFile
				if err := json.UnmarshalRead(file, &all); err != nil {
					return fmt.Errorf("reading the policies: %w", err)
				}
				return con.Printer().JSON(all)
			}
			_, err = io.Copy(con.Printer().Document(), file)
			return err
		}),
	}
}

// applyFlags say how a policy file is applied.
type applyFlags struct {
	dryRun bool // only show the changes
	prune  bool // delete policies that are not in the file
	shadow bool // in shadow mode, as drafts of policies that enforce now
	yes    bool // confirm what needs it
}

// applyPolicies shows the changes that make the policies equal to wanted, and makes them.
func applyPolicies(c *cobra.Command, con *console.Console, server *client.Client, wanted []wire.PolicyRequest, f applyFlags) error {
	request, flags := wire.PolicyFileRequest{Policies: wanted}, wire.PolicyApplicationFlags{Prune: f.prune, Shadow: f.shadow}
	plan, err := client.Call(c.Context(), server, wire.PlanPolicies, wire.PolicyPlanOf{PolicyApplicationFlags: flags, PolicyFileRequest: request})
	if err != nil {
		return err
	}
	if err := printPlan(con, plan.Changes); err != nil {
		return err
	}
	changes := 0
	request.Expect = map[string]string{} // what is applied is what was shown
	for _, change := range plan.Changes {
		if change.Action != wire.PolicyKeep {
			changes++
		}
		if change.ETag != "" {
			request.Expect[change.Name] = string(change.ETag)
		}
	}
	switch {
	case changes == 0:
		con.Notef("No changes: %s already as the file says.", output.Amount(len(wanted), "policy is", "policies are"))
		return nil
	case f.dryRun:
		con.Warn(plan.Warnings)
		con.Notef("%d to change. Dry run: nothing was changed.", changes)
		if plan.Confirm != "" && !f.yes {
			needs := fmt.Sprintf("Applying it needs a confirmation (--yes): %s.", output.Escape(string(plan.ConfirmReason)))
			if !con.Interactive() { // as without --dry-run
				return &console.ExitError{Code: console.Unconfirmed, Err: errors.New(needs)}
			}
			con.Notef("%s", needs)
		}
		return &console.ExitError{Code: console.Different}
	}
	done, err := confirmPolicy(con, f.yes, func(confirm string) (wire.PolicyPlan, error) {
		return client.Call(c.Context(), server, wire.ApplyPolicies, wire.PolicyApplication{Confirm: confirm, PolicyApplicationFlags: flags, PolicyFileRequest: request})
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
		return output.List(p, plan, output.Columns[wire.PolicyChange]("name, action"))
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
	lists := map[string][]string{}
	for _, text := range texts {
		name, pattern, found := strings.Cut(text, "=")
		if name == "attack" {
			lists[name] = []string{cmp.Or(pattern, "on")}
			continue
		}
		if _, err := conditions.ParseAttribute(name); !found || err != nil {
			return wire.PolicyWhen{}, console.Usagef("--when %q is not a condition; write one of %s, an equals sign and a pattern, for example path=/login*",
				text, conditions.AttributeSyntax)
		}
		lists[name] = append(lists[name], pattern)
	}
	return wire.WhenOf(lists), nil
}

// whenTexts returns conditions as parseWhen reads them.
func whenTexts(w wire.PolicyWhen) []string {
	var texts []string
	all := w.Texts()
	for _, name := range slices.SortedFunc(maps.Keys(all), conditions.CompareNames) {
		for _, p := range all[name] {
			texts = append(texts, name+"="+p)
		}
	}
	return texts
}
