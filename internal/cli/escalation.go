package cli

import (
	"github.com/spf13/cobra"

	v1 "github.com/stint-dev/stint/internal/api/v1"
	"github.com/stint-dev/stint/internal/cli/output"
)

func newEscalation(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "escalation",
		Short: "See what automatic blocks did, and let a paused escalation go on",
		Long: `See what the policies' escalations did. An escalation that would have blocked
too many keys at once has stopped and waits for a person.`,
		Example: "admin escalation events --last 24h\nadmin escalation resume default",
	}
	c.AddCommand(newEscalationEvents(a), newEscalationPaused(a), newEscalationResume(a))
	return c
}

func newEscalationEvents(a *app) *cobra.Command {
	var span spanFlags
	var policy, key string
	c := &cobra.Command{
		Use:     "events",
		Short:   "List what the escalations did, the newest first",
		Example: "admin escalation events --last 24h --policy default\nadmin escalation events --key ip:203.0.113.7 --last 30d",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			from, err := a.client()
			if err != nil {
				return err
			}
			filter := span.query()
			setIf(filter, "policy", policy)
			setIf(filter, "key", key)
			events, err := from.EscalationEvents(c.Context(), filter)
			if err != nil {
				return err
			}
			return output.List(a.printer(), events, escalationEventColumns)
		},
	}
	span.add(c)
	c.Flags().StringVar(&policy, "policy", "", "only of this policy")
	c.Flags().StringVar(&key, "key", "", "only about this key")
	return c
}

func newEscalationPaused(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "stopped",
		Short:   "List the escalations that wait for a person",
		Example: "admin escalation paused",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			from, err := a.client()
			if err != nil {
				return err
			}
			stops, err := from.EscalationPauses(c.Context())
			if err != nil {
				return err
			}
			p := a.printer()
			if p.Format != output.Table {
				return output.List(p, stops, escalationPauseColumns)
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

func newEscalationResume(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "resume POLICY",
		Short:   "Let a paused escalation go on",
		Example: "admin escalation resume default",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			from, err := a.client()
			if err != nil {
				return err
			}
			if err := from.ResumeEscalation(c.Context(), args[0]); err != nil {
				return err
			}
			a.notef("The escalation of %s goes on.", output.Escape(args[0]))
			return nil
		},
	}
}

// sayEscalation says where a key stands on an escalation and what comes next, nothing
// where there is none.
func sayEscalation(p *output.Printer, l *v1.EscalationStatus) {
	if l == nil {
		return
	}
	blocks, only := "blocks it for ", ""
	if l.Shadow {
		blocks, only = "would block it for ", ", which only watches"
	}
	p.Sayf("Escalation of policy %s%s: step %d of %d. The next one %s%s, after %d refusals within %s, of which %d are there.",
		output.Escape(l.Policy), only, l.Level, l.Levels, blocks, l.NextBlock, l.Threshold, l.Window, l.Count)
	if !l.DecaysAt.IsZero() {
		p.Sayf("If it stays quiet, a step is forgotten at %s.", output.When(l.DecaysAt.Time, p.Now))
	}
	if l.Paused {
		p.Sayf("The escalation is paused and waits for a person; see admin escalation paused.")
	}
}

var escalationEventColumns = []output.Column[v1.EscalationEvent]{
	{Name: "at", Head: "When", Cell: func(e v1.EscalationEvent) output.Cell { return output.Time(e.At.Time) }},
	{Name: "kind", Head: "What", Cell: func(e v1.EscalationEvent) output.Cell { return output.Text(e.Kind) }},
	{Name: "key", Head: "Key", Cut: true, Cell: func(e v1.EscalationEvent) output.Cell { return output.Text(string(e.Key)) }},
	{Name: "policy", Head: "Policy", Cell: func(e v1.EscalationEvent) output.Cell { return output.Text(e.Policy) }},
	{Name: "step", Head: "Step", Right: true, Cell: func(e v1.EscalationEvent) output.Cell { return output.Number(e.Level) }},
	{Name: "offences", Head: "Refused", Right: true, Drop: 1, Cell: func(e v1.EscalationEvent) output.Cell { return output.Number(e.Offences) }},
	{Name: "length_ms", Head: "For", Right: true, Cell: func(e v1.EscalationEvent) output.Cell {
		if e.Length == 0 {
			return output.Cell{}
		}
		return output.Milliseconds(e.Length.Std().Milliseconds())
	}},
	{Name: "detail", Head: "Detail", Cut: true, Drop: 2, Cell: func(e v1.EscalationEvent) output.Cell { return output.Text(e.Detail) }},
	{Name: "block_id", Cell: func(e v1.EscalationEvent) output.Cell { return output.Text(string(e.BlockID)) }},
}

var escalationPauseColumns = []output.Column[v1.EscalationPause]{
	{Name: "policy", Cell: func(s v1.EscalationPause) output.Cell { return output.Text(s.Policy) }},
	{Name: "at", Cell: func(s v1.EscalationPause) output.Cell { return output.Time(s.At.Time) }},
	{Name: "detail", Cell: func(s v1.EscalationPause) output.Cell { return output.Text(s.Detail) }},
}
