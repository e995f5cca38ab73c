package cli

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func newOffenders(con *console.Console) *cobra.Command {
	var span spanFlags
	var policy, pattern, source, search, rule, state, order, by string
	var shadow bool
	var minOffences, limit int
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
			filter := span.query()
			setIf(filter, "policy", policy)
			setIf(filter, "pattern", pattern)
			setIf(filter, "source", source)
			setIf(filter, "search", search)
			setIf(filter, "rule", rule)
			setIf(filter, "state", state)
			setIf(filter, "sort", order)
			if shadow {
				filter.Set("shadow", "true")
			}
			if minOffences > 0 {
				filter.Set("min_offences", strconv.Itoa(minOffences))
			}
			if by != "" {
				filter.Set("by", by)
				origins, err := server.Offenders.Origins(c.Context(), filter)
				if err != nil {
					return err
				}
				return printOrigins(con, origins, limit)
			}
			report, err := server.Offenders.List(c.Context(), filter, limit)
			if err != nil {
				return err
			}
			return printOffenders(con, report)
		}),
	}
	span.add(c)
	flags := c.Flags()
	flags.StringVar(&policy, "policy", "", "only by this policy")
	flags.StringVar(&pattern, "pattern", "", "only keys that this pattern selects")
	flags.StringVar(&source, "source", "", "only checks from this source")
	flags.StringVar(&search, "search", "", "only keys that contain this text")
	flags.StringVar(&rule, "rule", "", "only by this rule, as 20/1m")
	flags.BoolVar(&shadow, "shadow", false, "what shadow policies would have refused")
	flags.IntVar(&minOffences, "min-offences", 0, "only keys with at least this many offences")
	flags.StringVar(&state, "state", "", "open (neither blocked nor exempt), blocked or exempt")
	flags.StringVar(&order, "sort", "", "offences (default), last, first or key")
	flags.StringVar(&by, "by", "", "sum by asn or country instead of by key")
	limitFlag(c, &limit)
	return c
}

// query returns the range as query parameters; the API's default is the last hour.
func (f *spanFlags) query() url.Values {
	query := url.Values{}
	if f.last.given {
		query.Set("last", f.last.Duration.String())
		return query
	}
	setIf(query, "from", f.from.Time.String())
	setIf(query, "to", f.to.Time.String())
	return query
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
	if err := output.List(p, r.Items, offenderColumns); err != nil {
		return err
	}
	con.Notef("%s of %s from %s to %s; %s shown.", output.Amount(r.Offences, "refusal", "refusals"), output.Amount(r.Keys, "key", "keys"),
		r.From, r.To, output.Amount(len(r.Items), "is", "are"))
	if r.Other > 0 {
		con.Notef("%s more were counted without their keys, because there were too many.", humanize.Comma(r.Other))
	}
	return nil
}

var offenderColumns = []output.Column[wire.Offender]{
	{Name: "key", Head: "Key", Cut: true, Cell: func(o wire.Offender) output.Cell { return output.Text(o.Key) }},
	{Name: "offences", Head: "Refused", Right: true, Cell: func(o wire.Offender) output.Cell { return output.Number(o.Offences) }},
	{Name: "offences_max", Cell: func(o wire.Offender) output.Cell { return output.Number(o.OffencesMax) }},
	{Name: "allowed", Head: "Allowed", Right: true, Drop: 4, Cell: func(o wire.Offender) output.Cell { return output.Number(o.Allowed) }},
	{Name: "refused_ratio", Head: "Refused", Right: true, Drop: 3, Cell: func(o wire.Offender) output.Cell { return output.Ratio(o.RefusedRatio) }},
	{Name: "refused_by", Head: "Mostly by", Cut: true, Cell: func(o wire.Offender) output.Cell { return output.Text(o.RefusedBy) }},
	{Name: "policy", Head: "Policy", Drop: 2, Cell: func(o wire.Offender) output.Cell { return output.Text(string(o.Policy)) }},
	{Name: "first_at", Head: "First", Drop: 6, Cell: func(o wire.Offender) output.Cell { return output.Time(o.FirstAt.Time) }},
	{Name: "last_at", Head: "Last", Drop: 5, Cell: func(o wire.Offender) output.Cell { return output.Time(o.LastAt.Time) }},
	{Name: "state", Head: "Now", Cell: offenderState},
	{Name: "origin", Head: "From", Cut: true, Drop: 8, Cell: func(o wire.Offender) output.Cell { return output.Text(originText(o.Origin)) }},
	{Name: "plan", Head: "Plan", Drop: 10, Cell: func(o wire.Offender) output.Cell { return output.Text(string(o.Plan)) }},
	{Name: "own_limit", Head: "Own limit", Drop: 9, Cell: func(o wire.Offender) output.Cell {
		if o.OwnLimit == nil {
			return output.Cell{}
		}
		return output.Text(strings.Join(o.OwnLimit.Rules, " "))
	}},
	{Name: "escalation_level", Head: "Level", Right: true, Drop: 1, Cell: func(o wire.Offender) output.Cell {
		if o.Escalation == nil {
			return output.Cell{}
		}
		return output.Number(o.Escalation.Level)
	}},
	{Name: "escalation_next_block", Head: "Next block", Right: true, Drop: 7, Cell: func(o wire.Offender) output.Cell {
		if o.Escalation == nil {
			return output.Cell{}
		}
		return output.Text(fmt.Sprintf("%s at %d of %d", o.Escalation.NextBlock, o.Escalation.Count, o.Escalation.Threshold))
	}},
}

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

var originColumns = []output.Column[wire.OriginOffences]{
	{Name: "pattern", Head: "From", Cell: func(o wire.OriginOffences) output.Cell {
		if o.Pattern == "" {
			return output.Words("not known", "")
		}
		return output.Text(string(o.Pattern))
	}},
	{Name: "name", Head: "Name", Cut: true, Cell: func(o wire.OriginOffences) output.Cell { return output.Text(o.Name) }},
	{Name: "keys", Head: "Keys", Right: true, Cell: func(o wire.OriginOffences) output.Cell { return output.Number(o.Keys) }},
	{Name: "offences", Head: "Refused", Right: true, Cell: func(o wire.OriginOffences) output.Cell { return output.Number(o.Offences) }},
	{Name: "ratio", Head: "Of all", Right: true, Drop: 1, Cell: func(o wire.OriginOffences) output.Cell { return output.Ratio(o.Ratio) }},
	{Name: "blocked", Head: "Now", Cell: func(o wire.OriginOffences) output.Cell {
		if o.Blocked {
			return output.Words("blocked", "blocked")
		}
		return output.Words("not blocked", "none")
	}},
}

// offenderState is a key's state now.
func offenderState(o wire.Offender) output.Cell {
	switch {
	case o.Exemption != nil:
		return output.Words("exempt", "exempt")
	case o.Block != nil:
		return output.Words("blocked", "blocked")
	default:
		return output.Words("not blocked", "none")
	}
}

func newExplain(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "explain ID",
		Short: "Explain a refusal by its id",
		Long: `Explain a refusal by its id. Refusals of one key under one policy
within one minute share an id.`,
		Example: "admin explain 01KAH3E6C0QJ7V5N2RWZB48T9D",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			record, err := server.Offenders.Offence(c.Context(), args[0])
			if err != nil {
				return err
			}
			return printOffence(con.Printer(), record)
		}),
	}
}

func printOffence(p *output.Printer, r *wire.OffenceRecord) error {
	if p.Format == output.JSON {
		return p.JSON(r)
	}
	p.Sayf("%s", output.Escape(r.Explanation))
	sayEscalation(p, r.Escalation)
	for _, of := range []struct {
		title string
		all   []wire.Offence
	}{{"Refused by", r.Offences}, {"Counted in that minute without keys", r.Other}} {
		if len(of.all) == 0 {
			continue
		}
		p.Sayf("\n%s", of.title)
		if err := output.List(p, of.all, offenceColumns); err != nil {
			return err
		}
	}
	return nil
}

var offenceColumns = []output.Column[wire.Offence]{
	{Name: "decision", Head: "Decision", Cell: func(o wire.Offence) output.Cell { return output.Text(o.Decision) }},
	{Name: "refused_by", Head: "By", Cut: true, Cell: func(o wire.Offence) output.Cell { return output.Text(o.RefusedBy) }},
	{Name: "count", Head: "Times", Right: true, Cell: func(o wire.Offence) output.Cell { return output.Number(o.Count) }},
	{Name: "count_max", Cell: func(o wire.Offence) output.Cell { return output.Number(o.CountMax) }},
	{Name: "first_at", Head: "First", Cell: func(o wire.Offence) output.Cell { return output.Time(o.First.At.Time) }},
	{Name: "first_boundary_at", Head: "Waited for", Drop: 1, Cell: func(o wire.Offence) output.Cell { return output.Time(o.First.BoundaryAt.Time) }},
	{Name: "first_retry_at", Head: "Retry at", Drop: 2, Cell: func(o wire.Offence) output.Cell { return output.Time(o.First.RetryAt.Time) }},
	{Name: "last_at", Head: "Last", Drop: 3, Cell: func(o wire.Offence) output.Cell { return output.Time(o.Last.At.Time) }},
	{Name: "source", Head: "Source", Drop: 4, Cell: func(o wire.Offence) output.Cell { return output.Text(string(o.Last.Source)) }},
	{Name: "meta", Head: "Metadata", Cut: true, Drop: 5, Cell: func(o wire.Offence) output.Cell { return metaCell(o.Last.Meta) }},
}

// metaCell formats a check's metadata, sorted by name.
func metaCell(meta map[string]string) output.Cell {
	var all []string
	for name, value := range meta {
		all = append(all, name+"="+value)
	}
	slices.Sort(all)
	return output.Text(strings.Join(all, " "))
}
