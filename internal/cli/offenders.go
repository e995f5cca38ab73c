package cli

import (
	"fmt"
	"net/url"
	"strconv"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func newOffenders(a *app) *cobra.Command {
	var span spanFlags
	var policy, pattern, source, search, rule, order string
	var shadow bool
	var least, limit int
	c := &cobra.Command{
		Use:   "offenders",
		Short: "List who was refused, how often and by what",
		Long: `List the keys that were refused in the last hour or another time range, most offences
first, by which rule or block, and their state now: a block, an exemption, or a level of
the policy's escalation.`,
		Example: `admin offenders
admin offenders --last 24h --pattern ip:203.0.113.0/24
admin offenders --last 7d --policy default --limit 0 -o csv > offenders.csv`,
		Args: cobra.NoArgs,
		RunE: a.online(func(c *cobra.Command, from *client.Client, _ []string) error {
			filter := span.query()
			setIf(filter, "policy", policy)
			setIf(filter, "pattern", pattern)
			setIf(filter, "source", source)
			setIf(filter, "search", search)
			setIf(filter, "rule", rule)
			setIf(filter, "sort", order)
			if shadow {
				filter.Set("shadow", "true")
			}
			if least > 0 {
				filter.Set("least", strconv.Itoa(least))
			}
			report, err := from.Offenders(c.Context(), filter, limit)
			if err != nil {
				return err
			}
			return printOffenders(a, report)
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
	flags.IntVar(&least, "least", 0, "only keys with at least this many offences")
	flags.StringVar(&order, "sort", "", "offences (default), last, first or key")
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

func printOffenders(a *app, r *wire.OffenderReport) error {
	p := a.printer()
	if p.Format == output.JSON {
		return p.JSON(r)
	}
	if p.Format == output.Table && len(r.Items) == 0 {
		a.notef("Nobody was refused from %s to %s.", r.From, r.To)
		return nil
	}
	if err := output.List(p, r.Items, offenderColumns); err != nil {
		return err
	}
	a.notef("%s of %s from %s to %s; %s shown.", amount(r.Offences, "refusal", "refusals"), amount(r.Keys, "key", "keys"),
		r.From, r.To, amount(len(r.Items), "is", "are"))
	if r.Other > 0 {
		a.notef("%s more were counted without their keys, because there were too many.", humanize.Comma(r.Other))
	}
	return nil
}

var offenderColumns = []output.Column[wire.Offender]{
	{Name: "key", Head: "Key", Cut: true, Cell: func(o wire.Offender) output.Cell { return output.Text(o.Key) }},
	{Name: "offences", Head: "Refused", Right: true, Cell: func(o wire.Offender) output.Cell { return output.Number(o.Offences) }},
	{Name: "offences_at_most", Cell: func(o wire.Offender) output.Cell { return output.Number(o.OffencesAtMost) }},
	{Name: "allowed", Head: "Allowed", Right: true, Drop: 4, Cell: func(o wire.Offender) output.Cell { return output.Number(o.Allowed) }},
	{Name: "share_refused", Head: "Share", Right: true, Drop: 3, Cell: func(o wire.Offender) output.Cell { return output.Share(o.ShareRefused) }},
	{Name: "decided_by", Head: "Mostly by", Cut: true, Cell: func(o wire.Offender) output.Cell { return output.Text(o.DecidedBy) }},
	{Name: "policy", Head: "Policy", Drop: 2, Cell: func(o wire.Offender) output.Cell { return output.Text(string(o.Policy)) }},
	{Name: "first_at", Head: "First", Drop: 6, Cell: func(o wire.Offender) output.Cell { return output.Time(o.FirstAt.Time) }},
	{Name: "last_at", Head: "Last", Drop: 5, Cell: func(o wire.Offender) output.Cell { return output.Time(o.LastAt.Time) }},
	{Name: "state", Head: "Now", Cell: offenderState},
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
