package cli

import (
	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func newTraffic(con *console.Console) *cobra.Command {
	var span spanFlags
	var policy string
	var step durationFlag
	var rules bool
	c := &cobra.Command{
		Use:   "traffic",
		Short: "Show how much was allowed and refused over time",
		Long: `Show how many checks were allowed and refused over the last hour or another time range
(exact), and how many distinct keys there were (estimated). With --rules, show how often
each rule and block refused, including those that never did.`,
		Example: "admin traffic --last 24h --step 1h\nadmin traffic --policy default -o csv\nadmin traffic --rules --last 7d",
		Args:    cobra.NoArgs,
		RunE: online(con, func(c *cobra.Command, server *client.Client, _ []string) error {
			filter := span.query()
			if rules {
				totals, err := server.RuleTotals(c.Context(), filter)
				if err != nil {
					return err
				}
				return output.List(con.Printer(), totals, ruleTotalColumns)
			}
			setIf(filter, "policy", policy)
			setIf(filter, "step", step.String())
			traffic, err := server.Traffic(c.Context(), filter)
			if err != nil {
				return err
			}
			if p := con.Printer(); p.Format == output.JSON {
				return p.JSON(traffic)
			}
			return output.List(con.Printer(), traffic.Points, trafficColumns)
		}),
	}
	span.add(c)
	c.Flags().StringVar(&policy, "policy", "", "only of this policy")
	c.Flags().Var(&step, "step", "the length of each row's interval, in whole minutes")
	c.Flags().BoolVar(&rules, "rules", false, "show what each rule and block refused")
	c.MarkFlagsMutuallyExclusive("rules", "policy")
	c.MarkFlagsMutuallyExclusive("rules", "step")
	return c
}

var trafficColumns = []output.Column[wire.TrafficPoint]{
	{Name: "at", Head: "From", Cell: func(t wire.TrafficPoint) output.Cell { return output.Time(t.At.Time) }},
	{Name: "allowed", Head: "Allowed", Right: true, Cell: func(t wire.TrafficPoint) output.Cell { return output.Number(t.Allowed) }},
	{Name: "limited", Head: "Limited", Right: true, Cell: func(t wire.TrafficPoint) output.Cell { return output.Number(t.Limited) }},
	{Name: "blocked", Head: "Blocked", Right: true, Cell: func(t wire.TrafficPoint) output.Cell { return output.Number(t.Blocked) }},
	{Name: "unavailable", Head: "Unavailable", Right: true, Drop: 1, Cell: func(t wire.TrafficPoint) output.Cell { return output.Number(t.Unavailable) }},
	{Name: "shadow_limited", Head: "Shadow", Right: true, Drop: 2, Cell: func(t wire.TrafficPoint) output.Cell { return output.Number(t.ShadowLimited) }},
	{Name: "keys_estimate", Head: "Keys (est.)", Right: true, Cell: func(t wire.TrafficPoint) output.Cell { return output.Number(t.KeysEstimate) }},
}

var ruleTotalColumns = []output.Column[wire.RuleTotal]{
	{Name: "policy", Head: "Policy", Cell: func(r wire.RuleTotal) output.Cell { return output.Text(string(r.Policy)) }},
	{Name: "decision", Head: "Decision", Drop: 1, Cell: func(r wire.RuleTotal) output.Cell { return output.Text(r.Decision) }},
	{Name: "refused_by", Head: "By", Cut: true, Cell: func(r wire.RuleTotal) output.Cell { return output.Text(r.RefusedBy) }},
	{Name: "refused", Head: "Refused", Right: true, Cell: func(r wire.RuleTotal) output.Cell { return output.Number(r.Refused) }},
	{Name: "ratio", Head: "Ratio", Right: true, Cell: func(r wire.RuleTotal) output.Cell { return output.Ratio(r.Ratio) }},
	{Name: "keys", Head: "Keys", Right: true, Cell: func(r wire.RuleTotal) output.Cell { return output.Number(r.Keys) }},
}
