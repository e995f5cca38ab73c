package cli

import (
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func init() { addCommands(monitor, newOffenders) }

// offenderFlags select offenders.
type offenderFlags struct {
	span spanFlags
	wire.OffenderFilter
}

func (f *offenderFlags) add(c *cobra.Command) {
	f.span.add(c)
	flags := c.Flags()
	flags.StringVar(&f.Policy, "policy", "", "only by this policy")
	flags.StringVar(&f.Pattern, "pattern", "", "only keys that this pattern covers")
	flags.StringVar(&f.Source, "source", "", "only checks from this source")
	flags.StringVar(&f.Search, "search", "", "only keys that contain this text")
	flags.StringVar(&f.Rule, "rule", "", "only by this rule, for example 20/1m")
	flags.StringVar(&f.NotRule, "not-rule", "", "not by this rule")
	flags.BoolVar(&f.Shadow, "shadow", false, "what shadow policies would have refused")
	flags.IntVar(&f.MinOffences, "min-offences", 0, "only keys with at least this many offences")
	flags.StringVar(&f.State, "state", "", "open (neither blocked nor exempt), blocked or exempt")
	flags.StringVar(&f.Sort, "sort", "", "offences (default), last, first or key")
}

func newOffenders(con *console.Console) *cobra.Command {
	var selected offenderFlags
	var by string
	var limit int
	c := &cobra.Command{
		Use:   "offenders",
		Short: "List who was refused, how often and by what",
		Long: `List the keys that were refused in the last hour or another time range, most offences
first, by which rule or block, and their state now: a block, an exemption, or a level of
the policy's escalation.

With --by asn or --by country, list where they come from instead: the offences of each
autonomous system or country.`,
		Example: `admin offenders
admin offenders --state open
admin offenders --last 24h --pattern ip:203.0.113.0/24
admin offenders --last 24h --by asn
admin offenders --pattern country:NL
admin offenders --last 7d --policy default --limit 0 -o csv > offenders.csv`,
		Args: cobra.NoArgs,
		RunE: online(con, func(c *cobra.Command, server *client.Client, _ []string) error {
			selected.TimeRange = selected.span.timeRange()
			if by != "" {
				origins, err := client.Call(c.Context(), server, wire.ListOrigins, wire.OriginList{By: by, OffenderFilter: selected.OffenderFilter})
				if err != nil {
					return err
				}
				return printOrigins(con, &origins, limit)
			}
			report, err := client.Offenders(c.Context(), server, selected.OffenderFilter, limit)
			if err != nil {
				return err
			}
			return printOffenders(con, report)
		}),
	}
	selected.add(c)
	c.Flags().StringVar(&by, "by", "", "sum, instead of by key, by: asn or country")
	limitFlag(c, &limit)
	return c
}

func printOffenders(con *console.Console, r *wire.OffenderReport) error {
	p := con.Printer()
	if p.Format == output.JSON {
		return p.JSON(r)
	}
	if p.Format == output.Table && len(r.Items) == 0 {
		con.Notef("Nobody was refused from %s to %s.", r.From, r.To)
		return nil
	}
	columns := offenderColumns
	if p.Format == output.CSV {
		columns = offenderCSVColumns()
	}
	if err := output.List(p, r.Items, columns); err != nil {
		return err
	}
	con.Notef("%s of %s from %s to %s; %s shown.", output.Amount(r.Offences, "refusal", "refusals"), output.Amount(r.Keys, "key", "keys"),
		r.From, r.To, output.Amount(len(r.Items), "is", "are"))
	if r.Other > 0 {
		con.Notef("%s more were counted without their keys, because there were too many.", humanize.Comma(r.Other))
	}
	return nil
}

// offenderCSVColumns are the columns of the API's export of offenders.
func offenderCSVColumns() []output.Column[wire.Offender] {
	columns := make([]output.Column[wire.Offender], len(wire.OffenderColumns))
	for i, column := range wire.OffenderColumns {
		columns[i] = output.Column[wire.Offender]{Name: column.Name, Cell: func(o wire.Offender) output.Cell { return output.Text(column.Cell(&o)) }}
	}
	return columns
}

var offenderColumns = output.Columns(`key: Key (cut), offences: Refused, allowed: Allowed (drop 4), refused_ratio: Ratio (right drop 3),
	refused_by: Mostly by (cut), policy: Policy (drop 2), first_at: First (drop 6), last_at: Last (drop 5), state: Now,
	origin: From (cut drop 8), plan: Plan (drop 10), own_limit: Own limit (drop 9), escalation_level: Level (right drop 1),
	escalation_next_block: Next block (right drop 7)`, output.Cells[wire.Offender]{
	"refused_ratio": func(o wire.Offender) output.Cell { return output.Ratio(o.RefusedRatio) },
	"state":         offenderState,
	"origin":        func(o wire.Offender) output.Cell { return output.Text(originText(o.Origin)) },
	"own_limit": func(o wire.Offender) output.Cell {
		if o.OwnLimit == nil {
			return output.Cell{}
		}
		return output.Text(strings.Join(o.OwnLimit.Rules, " "))
	},
	"escalation_level": func(o wire.Offender) output.Cell {
		if o.Escalation == nil {
			return output.Cell{}
		}
		return output.Number(o.Escalation.Level)
	},
	"escalation_next_block": func(o wire.Offender) output.Cell {
		return output.Text(o.Escalation.DescribeNext())
	},
})

func printOrigins(con *console.Console, r *wire.OriginReport, limit int) error {
	p := con.Printer()
	if limit > 0 {
		r.Items = r.Items[:min(limit, len(r.Items))]
	}
	if p.Format == output.JSON {
		return p.JSON(r)
	}
	if p.Format == output.Table && len(r.Items) == 0 {
		con.Notef("Nobody was refused from %s to %s.", r.From, r.To)
		return nil
	}
	if err := output.List(p, r.Items, originColumns); err != nil {
		return err
	}
	con.Notef("%s of %s from %s to %s; %d of %s shown.", output.Amount(r.Offences, "refusal", "refusals"), output.Amount(r.Keys, "key", "keys"),
		r.From, r.To, len(r.Items), output.Amount(r.Total, "origin", "origins"))
	return nil
}

var originColumns = output.Columns(`pattern: From, name: Name (cut), keys: Keys, offences: Refused, ratio: Of all (right drop 1),
	blocked: Now`, output.Cells[wire.OriginOffences]{
	"pattern": func(o wire.OriginOffences) output.Cell {
		if o.Pattern == "" {
			return output.Words("not known", "")
		}
		return output.Text(string(o.Pattern))
	},
	"ratio": func(o wire.OriginOffences) output.Cell { return output.Ratio(o.Ratio) },
	"blocked": func(o wire.OriginOffences) output.Cell {
		if o.Blocked {
			return output.Words("blocked", "blocked")
		}
		return output.Words("not blocked", "none")
	},
})

// offenderState returns the cell of a key's present state.
func offenderState(o wire.Offender) output.Cell {
	switch {
	case o.Exemption != nil:
		return output.Words("exempt", "exempt")
	case o.Block != nil:
		return output.Words("blocked", "blocked")
	case len(o.BlockedScopes) > 0:
		return output.Words("only "+strings.Join(o.BlockedScopes, ", ")+" blocked", "blocked_in_scope")
	default:
		return output.Words("not blocked", "none")
	}
}
