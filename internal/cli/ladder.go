package cli

import (
	"github.com/spf13/cobra"

	v1 "github.com/stint-dev/stint/internal/api/v1"
	"github.com/stint-dev/stint/internal/cli/output"
)

func newLadder(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "ladder",
		Short: "See what automatic blocks did, and let a stopped ladder go on",
		Long: `See what the policies' ladders of automatic blocks did. A ladder that would have blocked
too many keys at once has stopped and waits for a person.`,
		Example: "admin ladder events --last 24h\nadmin ladder resume default",
	}
	c.AddCommand(newLadderEvents(a), newLadderStopped(a), newLadderResume(a))
	return c
}

func newLadderEvents(a *app) *cobra.Command {
	var span spanFlags
	var policy, key string
	c := &cobra.Command{
		Use:     "events",
		Short:   "List what the ladders did, the newest first",
		Example: "admin ladder events --last 24h --policy default\nadmin ladder events --key ip:203.0.113.7 --last 30d",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			from, err := a.client()
			if err != nil {
				return err
			}
			filter := span.query()
			setIf(filter, "policy", policy)
			setIf(filter, "key", key)
			events, err := from.LadderEvents(c.Context(), filter)
			if err != nil {
				return err
			}
			return output.List(a.printer(), events, ladderEventColumns)
		},
	}
	span.add(c)
	c.Flags().StringVar(&policy, "policy", "", "only of this policy")
	c.Flags().StringVar(&key, "key", "", "only about this key")
	return c
}

func newLadderStopped(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "stopped",
		Short:   "List the ladders that wait for a person",
		Example: "admin ladder stopped",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			from, err := a.client()
			if err != nil {
				return err
			}
			stops, err := from.LadderStops(c.Context())
			if err != nil {
				return err
			}
			p := a.printer()
			if p.Format != output.Table {
				return output.List(p, stops, ladderStopColumns)
			}
			if len(stops) == 0 {
				a.notef("None.")
			}
			for _, s := range stops {
				p.Sayf("%s: %s", output.When(s.At.Time, p.Now), output.Escape(s.Detail))
			}
			return nil
		},
	}
}

func newLadderResume(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "resume POLICY",
		Short:   "Let a stopped ladder go on",
		Example: "admin ladder resume default",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			from, err := a.client()
			if err != nil {
				return err
			}
			if err := from.ResumeLadder(c.Context(), args[0]); err != nil {
				return err
			}
			a.notef("The ladder of %s goes on.", output.Escape(args[0]))
			return nil
		},
	}
}

// sayLadder says where a key stands on a ladder and what comes next, nothing
// where there is none.
func sayLadder(p *output.Printer, l *v1.Ladder) {
	if l == nil {
		return
	}
	blocks, only := "blocks it for ", ""
	if l.Shadow {
		blocks, only = "would block it for ", ", which only watches"
	}
	p.Sayf("Ladder of policy %s%s: step %d of %d. The next one %s%s, after %d refusals within %s, of which %d are there.",
		output.Escape(l.Policy), only, l.Step, l.Steps, blocks, l.NextBlock, l.Enough, l.Within, l.Counted)
	if !l.ForgetsAt.IsZero() {
		p.Sayf("If it stays quiet, a step is forgotten at %s.", output.When(l.ForgetsAt.Time, p.Now))
	}
	if l.Stopped {
		p.Sayf("The ladder has stopped and waits for a person; see admin ladder stopped.")
	}
}

var ladderEventColumns = []output.Column[v1.LadderEvent]{
	{Name: "at", Head: "When", Cell: func(e v1.LadderEvent) output.Cell { return output.Time(e.At.Time) }},
	{Name: "kind", Head: "What", Cell: func(e v1.LadderEvent) output.Cell { return output.Text(e.Kind) }},
	{Name: "key", Head: "Key", Cut: true, Cell: func(e v1.LadderEvent) output.Cell { return output.Text(string(e.Key)) }},
	{Name: "policy", Head: "Policy", Cell: func(e v1.LadderEvent) output.Cell { return output.Text(e.Policy) }},
	{Name: "step", Head: "Step", Right: true, Cell: func(e v1.LadderEvent) output.Cell { return output.Number(e.Step) }},
	{Name: "offences", Head: "Refused", Right: true, Drop: 1, Cell: func(e v1.LadderEvent) output.Cell { return output.Number(e.Offences) }},
	{Name: "length_ms", Head: "For", Right: true, Cell: func(e v1.LadderEvent) output.Cell {
		if e.Length == 0 {
			return output.Cell{}
		}
		return output.Milliseconds(e.Length.Std().Milliseconds())
	}},
	{Name: "detail", Head: "Detail", Cut: true, Drop: 2, Cell: func(e v1.LadderEvent) output.Cell { return output.Text(e.Detail) }},
	{Name: "block_id", Cell: func(e v1.LadderEvent) output.Cell { return output.Text(string(e.BlockID)) }},
}

var ladderStopColumns = []output.Column[v1.LadderStop]{
	{Name: "policy", Cell: func(s v1.LadderStop) output.Cell { return output.Text(s.Policy) }},
	{Name: "at", Cell: func(s v1.LadderStop) output.Cell { return output.Time(s.At.Time) }},
	{Name: "detail", Cell: func(s v1.LadderStop) output.Cell { return output.Text(s.Detail) }},
}
