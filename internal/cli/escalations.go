package cli

import (
	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func init() { addCommands(enforce, newEscalation) }

func newEscalation(con *console.Console) *cobra.Command {
	c := &cobra.Command{
		Use:   "escalation",
		Short: "Show what escalation did, and resume paused escalation",
		Long: `Show what the policies' escalation did. Escalation that would have blocked too many
keys at once is paused until an operator resumes it.`,
		Example: "admin escalation events --last 24h\nadmin escalation resume default",
	}
	c.AddCommand(newEscalationEvents(con), newEscalationPaused(con), newEscalationResume(con))
	return c
}

func newEscalationEvents(con *console.Console) *cobra.Command {
	var span spanFlags
	var policy, key string
	c := pagedCommand(con, cobra.Command{
		Use:     "events",
		Short:   "List the events of escalation, newest first",
		Example: "admin escalation events --last 24h --policy default\nadmin escalation events --key ip:203.0.113.7 --last 30d",
	}, wire.ListEscalationEvents, escalationEventColumns, func() wire.EscalationList {
		return wire.EscalationList{Policy: policy, Key: key, TimeRange: span.timeRange()}
	})
	span.add(c)
	c.Flags().StringVar(&policy, "policy", "", "only of this policy")
	c.Flags().StringVar(&key, "key", "", "only about this key")
	return c
}

func newEscalationPaused(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:     "paused",
		Short:   "List the policies whose escalation is paused",
		Example: "admin escalation paused",
		Args:    cobra.NoArgs,
		RunE: online(con, func(c *cobra.Command, server *client.Client, _ []string) error {
			stops, err := client.Items(c.Context(), server, wire.ListPausedEscalations, wire.None{})
			if err != nil {
				return err
			}
			p := con.Printer()
			if p.Format != output.Table {
				return output.List(p, stops, escalationPauseColumns)
			}
			if len(stops) == 0 {
				con.Notef("None.")
			}
			for _, s := range stops {
				p.Sayf("%s: %s", output.When(s.At.Time, p.Now), output.Escape(s.Detail))
			}
			return nil
		}),
	}
}

func newEscalationResume(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:     "resume POLICY",
		Short:   "Resume a policy's paused escalation",
		Example: "admin escalation resume default",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			return note(con, "Resumed the escalation of %s.", output.Escape(args[0]))(client.Call(c.Context(), server, wire.ResumeEscalation, wire.ByName{Name: args[0]}))
		}),
	}
}

// sayEscalation prints a key's escalation level and its next block, or nothing
// without one.
func sayEscalation(p *output.Printer, l *wire.EscalationStatus) {
	if l == nil {
		return
	}
	blocks, only := "blocks it for ", ""
	if l.Shadow {
		blocks, only = "would block it for ", " (shadow)"
	}
	p.Sayf("Escalation of policy %s%s: level %d of %d. The next level %s%s, after %d refusals within %s; %d counted now.",
		output.Escape(l.Policy), only, l.Level, l.Levels, blocks, l.NextBlock, l.Threshold, l.Window, l.Count)
	if !l.DecaysAt.IsZero() {
		p.Sayf("Without further offences the level falls by one at %s.", output.When(l.DecaysAt.Time, p.Now))
	}
	if l.Paused {
		p.Sayf("Escalation is paused until an operator resumes it; see 'escalation paused'.")
	}
}

var escalationEventColumns = output.Columns(`at: When, kind: What, key: Key (cut), policy: Policy, level: Level, offences: Refused (drop 1),
	length_ms: For (right), detail: Detail (cut drop 2), block_id`, output.Cells[wire.EscalationEvent]{
	"length_ms": func(e wire.EscalationEvent) output.Cell {
		if e.Length == 0 {
			return output.Cell{}
		}
		return output.Milliseconds(e.Length.Std().Milliseconds())
	},
})

var escalationPauseColumns = output.Columns[wire.EscalationPause]("policy, at, detail")
