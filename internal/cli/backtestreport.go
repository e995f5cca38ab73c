package cli

import (
	"fmt"

	"github.com/dustin/go-humanize"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/backtest"
	"github.com/stint-dev/stint/internal/cli/output"
)

// printBacktest prints a report, at most limit keys in each table of people,
// all for 0.
func printBacktest(p *output.Printer, r *backtest.Report, limit int) error {
	switch p.Format {
	case output.JSON:
		return p.JSON(r)
	case output.CSV:
		if r.Comparison != nil {
			return output.List(p, changesOf(r.Comparison), changeColumns)
		}
		return output.List(p, r.Offenders, offenderColumns)
	}
	sayInput(p, r)
	if r.Requests == 0 {
		return nil
	}
	p.Sayf("\nTried %s", output.Escape(r.Plan))
	sayTotals(p, r)
	p.Sayf("")
	if err := output.List(p, r.Rules, ruleCountColumns(r.Rules)); err != nil {
		return err
	}
	if err := listSome(p, "Offenders", r.Offenders, limit, offenderColumns); err != nil {
		return err
	}
	if r.Comparison != nil {
		return sayComparison(p, r.Comparison, limit)
	}
	return nil
}

func sayInput(p *output.Printer, r *backtest.Report) {
	if r.Input == nil {
		return
	}
	p.Sayf("Read %s lines: %s requests of %s keys", humanize.Comma(r.Input.Lines), humanize.Comma(r.Requests), humanize.Comma(r.Keys))
	if r.Requests > 0 {
		p.Sayf("From %s to %s", output.Stamp(r.First), output.Stamp(r.Last))
	}
	if n := r.Input.OutOfOrder; n > 0 {
		p.Sayf("%s lines stood out of order and were sorted", humanize.Comma(n))
	}
	sayBadLines(p, &r.Input.Tally)
}

func sayBadLines(p *output.Printer, t *accesslog.Tally) {
	if t.Bad == 0 {
		return
	}
	p.Sayf("%s lines hold no request and were left out; the first:", humanize.Comma(t.Bad))
	for _, line := range t.First {
		p.Sayf("  %s:%d: %s: %s", output.Escape(line.File), line.Line, output.Escape(line.Why), output.Escape(line.Text))
	}
}

func sayTotals(p *output.Printer, r *backtest.Report) {
	p.Sayf("Allowed  %12s  %5.1f %%", humanize.Comma(r.Allowed), share(r.Allowed, r.Requests))
	p.Sayf("Refused  %12s  %5.1f %%", humanize.Comma(r.Refused), share(r.Refused, r.Requests))
	if r.TooCostly > 0 {
		p.Sayf("%s of the refused cost more than the rules can ever allow", humanize.Comma(r.TooCostly))
	}
	if r.Unlimited > 0 {
		p.Sayf("%s of the allowed fall under no rule", humanize.Comma(r.Unlimited))
	}
}

func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

func sayComparison(p *output.Printer, c *backtest.Comparison, limit int) error {
	p.Sayf("\nAgainst %s", output.Escape(c.Against))
	all := c.Allowed + c.Refused
	p.Sayf("Allowed  %12s  %5.1f %%", humanize.Comma(c.Allowed), share(c.Allowed, all))
	p.Sayf("Refused  %12s  %5.1f %%", humanize.Comma(c.Refused), share(c.Refused, all))
	p.Sayf("Newly refused %s requests of %s keys, newly allowed %s of %s",
		humanize.Comma(c.NewlyRefused), humanize.Comma(int64(len(c.NewlyRefusedKeys))),
		humanize.Comma(c.NewlyAllowed), humanize.Comma(int64(len(c.NewlyAllowedKeys))))
	p.Sayf("")
	if err := output.List(p, c.Rules, ruleCountColumns(c.Rules)); err != nil {
		return err
	}
	if err := listSome(p, "Newly refused", c.NewlyRefusedKeys, limit, changedColumns); err != nil {
		return err
	}
	return listSome(p, "Newly allowed", c.NewlyAllowedKeys, limit, changedColumns)
}

// listSome prints the first of many below a title, and says how many there are.
func listSome[T any](p *output.Printer, title string, items []T, limit int, columns []output.Column[T]) error {
	if len(items) == 0 {
		return nil
	}
	shown := items
	if limit > 0 && len(items) > limit {
		shown = items[:limit]
		title = fmt.Sprintf("%s, the first %d of %s", title, limit, humanize.Comma(int64(len(items))))
	}
	p.Sayf("\n%s", title)
	return output.List(p, shown, columns)
}

func ruleCountColumns(counts []backtest.RuleCount) []output.Column[backtest.RuleCount] {
	columns := []output.Column[backtest.RuleCount]{
		{Name: "rule", Head: "Rule", Cell: func(r backtest.RuleCount) output.Cell { return output.Text(r.Rule) }},
		{Name: "failed", Head: "Failed", Right: true, Cell: func(r backtest.RuleCount) output.Cell { return output.Number(r.Failed) }},
		{Name: "alone", Head: "Alone", Right: true, Cell: func(r backtest.RuleCount) output.Cell { return output.Number(r.Alone) }},
	}
	if len(counts) == 0 || counts[0].Policy == "" {
		return columns
	}
	return append([]output.Column[backtest.RuleCount]{
		{Name: "policy", Head: "Policy", Cell: func(r backtest.RuleCount) output.Cell { return output.Text(r.Policy) }},
	}, columns...)
}

var offenderColumns = []output.Column[backtest.Offender]{
	{Name: "key", Head: "Key", Cut: true, Cell: func(o backtest.Offender) output.Cell { return output.Text(o.Key) }},
	{Name: "refused", Head: "Refused", Right: true, Cell: func(o backtest.Offender) output.Cell { return output.Number(o.Refused) }},
	{Name: "share", Head: "Share", Right: true, Drop: 2, Cell: func(o backtest.Offender) output.Cell { return output.Share(o.Share) }},
	{Name: "requests", Head: "Of", Right: true, Cell: func(o backtest.Offender) output.Cell { return output.Number(o.Requests) }},
	{Name: "allowed", Cell: func(o backtest.Offender) output.Cell { return output.Number(o.Allowed) }},
	{Name: "first_refusal", Head: "First refusal", Drop: 1, Cell: func(o backtest.Offender) output.Cell { return output.Instant(o.First) }},
	{Name: "first_rule", Head: "By", Cell: func(o backtest.Offender) output.Cell { return output.Text(o.FirstRule) }},
	{Name: "first_policy", Cell: func(o backtest.Offender) output.Cell { return output.Text(o.FirstPolicy) }},
	{Name: "last_refusal", Head: "Last refusal", Drop: 3, Cell: func(o backtest.Offender) output.Cell { return output.Instant(o.Last) }},
}

var changedColumns = []output.Column[backtest.Change]{
	{Name: "key", Head: "Key", Cut: true, Cell: func(c backtest.Change) output.Cell { return output.Text(c.Key) }},
	{Name: "changed", Head: "Changed", Right: true, Cell: func(c backtest.Change) output.Cell { return output.Number(c.Changed) }},
	{Name: "requests", Head: "Of", Right: true, Cell: func(c backtest.Change) output.Cell { return output.Number(c.Requests) }},
	{Name: "refused", Head: "Refused", Right: true, Cell: func(c backtest.Change) output.Cell { return output.Number(c.Refused) }},
	{Name: "refused_against", Head: "Against", Right: true, Cell: func(c backtest.Change) output.Cell { return output.Number(c.RefusedAgainst) }},
	{Name: "first", Head: "First", Drop: 1, Cell: func(c backtest.Change) output.Cell { return output.Instant(c.First) }},
}

// change is a key that two plans treat differently, with the way in which.
type change struct {
	backtest.Change
	way string
}

func changesOf(c *backtest.Comparison) []change {
	var all []change
	for _, k := range c.NewlyRefusedKeys {
		all = append(all, change{k, "newly_refused"})
	}
	for _, k := range c.NewlyAllowedKeys {
		all = append(all, change{k, "newly_allowed"})
	}
	return all
}

var changeColumns = func() []output.Column[change] {
	columns := []output.Column[change]{
		{Name: "change", Cell: func(c change) output.Cell { return output.Words(c.way, c.way) }},
	}
	for _, of := range changedColumns {
		columns = append(columns, output.Column[change]{Name: of.Name, Cell: func(c change) output.Cell { return of.Cell(c.Change) }})
	}
	return columns
}()
