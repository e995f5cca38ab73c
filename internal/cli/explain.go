package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func newExplain(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "explain ID",
		Short: "Explain a refusal by its id",
		Long: `Explain a refusal by its id. Refusals of one key under one policy
within one minute share an id.`,
		Example: "admin explain 01KAH3E6C0QJ7V5N2RWZB48T9D",
		Args:    cobra.ExactArgs(1),
		RunE: a.online(func(c *cobra.Command, from *client.Client, args []string) error {
			record, err := from.Offence(c.Context(), args[0])
			if err != nil {
				return err
			}
			return printOffence(a.printer(), record)
		}),
	}
}

func printOffence(p *output.Printer, r *wire.OffenceRecord) error {
	if p.Format == output.JSON {
		return p.JSON(r)
	}
	p.Sayf("%s", output.Escape(r.Sentence))
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
	{Name: "decided_by", Head: "By", Cut: true, Cell: func(o wire.Offence) output.Cell { return output.Text(o.DecidedBy) }},
	{Name: "count", Head: "Times", Right: true, Cell: func(o wire.Offence) output.Cell { return output.Number(o.Count) }},
	{Name: "at_most", Cell: func(o wire.Offence) output.Cell { return output.Number(o.AtMost) }},
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
