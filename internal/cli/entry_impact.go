package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func newBlockPreview(con *console.Console) *cobra.Command {
	var literal bool
	c := &cobra.Command{
		Use:   "preview PATTERN",
		Short: "Show the impact of a block before it is added",
		Long: `Show the impact of a block before it is added: an estimate of how many keys and how much of
the traffic of the last day it would have refused, which exemptions stay allowed, which
blocks it overlaps, and whether it refuses your own address.

` + patternHelp,
		Example: "admin block preview ip:203.0.113.0/24\nadmin block preview 'token:test_*' -o json",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			preview, err := client.Call(c.Context(), server, wire.PreviewBlock, wire.PreviewRequest{Pattern: args[0], Literal: literal})
			if err != nil {
				return err
			}
			printPreview(con, &preview)
			if p := con.Printer(); p.Format != output.Table {
				return output.One(p, &preview, previewColumns)
			}
			return nil
		}),
	}
	literalFlag(c, &literal)
	return c
}

func printPreview(con *console.Console, b *wire.Impact) {
	p := con.Printer()
	con.Warn(b.Warnings)
	p.Sayf("%s", output.Escape(b.Pattern))
	for _, line := range impactLines(b) {
		p.Sayf("%s", line)
	}
	if b.ConfirmReason != "" {
		p.Sayf("It needs a confirmation: %s.", output.Escape(string(b.ConfirmReason)))
	}
}

// showImpact prints the impact of a block before its confirmation.
func showImpact(ctx context.Context, con *console.Console, server *client.Client, pattern string, literal bool) error {
	b, err := client.Call(ctx, server, wire.PreviewBlock, wire.PreviewRequest{Pattern: pattern, Literal: literal})
	if err != nil {
		return err
	}
	for _, line := range impactLines(&b) {
		con.Notef("%s", line)
	}
	return nil
}

// impactLines returns the impact of a block, one fact per line.
func impactLines(b *wire.Impact) []string {
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if x := b.Extent; x != nil {
		say("It has %s with %d IPv4 addresses.", output.Amount(x.Ranges, "range", "ranges"), x.Addresses)
	}
	if b.Estimate == nil {
		say("No traffic of the last day is recorded for it, so its impact is unknown.")
	} else {
		say(matches, estimateSentence(b.Estimate))
	}
	if c := b.Counted; c != nil && c.Keys > 0 {
		atLeast := "It covers"
		if !c.Exact {
			atLeast = "It covers at least"
		}
		say("%s %s of the last day, of which %d offended: %s allowed, %d refused.",
			atLeast, output.Amount(c.Keys, "key", "keys"), c.Offenders, output.Amount(c.Allowed, "check was", "checks were"), c.Refused)
	}
	if s := b.Suggested; s != nil {
		say("Consider %s instead, a narrower pattern with most of the offences: %d refused and %d allowed.", output.Escape(s.Pattern), s.Refused, s.Allowed)
	}
	if b.BlocksCaller {
		say("It refuses your own address.")
	}
	for _, e := range b.Exemptions {
		say("Stays allowed by the exemption of %s: %s", output.Escape(e.Pattern), output.Escape(e.Reason))
	}
	for _, other := range b.CoveredBy {
		say("Already refused by the block of %s: %s", output.Escape(other.Pattern), output.Escape(other.Reason))
	}
	if n := len(b.Covers); n > 0 && b.More {
		say("It makes %d or more blocks superfluous.", n)
	} else if n > 0 {
		say("It makes %s superfluous.", output.Amount(n, "block", "blocks"))
	}
	return lines
}

var previewColumns = output.Columns("pattern, keys_estimate, ratio_estimate, blocks_caller, hidden, confirm", output.Cells[*wire.Impact]{
	"keys_estimate": func(b *wire.Impact) output.Cell {
		if b.Estimate == nil {
			return output.Cell{}
		}
		return output.Number(b.Estimate.Keys)
	},
	"ratio_estimate": func(b *wire.Impact) output.Cell {
		if b.Estimate == nil {
			return output.Cell{}
		}
		return output.Ratio(b.Estimate.Ratio)
	},
})

// matches is the beginning of the sentence about the traffic of a pattern. A block refuses less
// than that if some of it is already blocked or exempt.
const matches = "Blocked and exempt keys included, it matches %s"

// estimateSentence returns the end of a sentence about a traffic estimate.
func estimateSentence(e *wire.TrafficEstimate) string {
	percent := func(part float64) string { return strconv.FormatFloat(part*100, 'f', 1, 64) }
	return fmt.Sprintf("about %s of %s and %s ± %s %% of the allowed checks from %s to %s (an estimate from a sample).",
		humanize.Comma(e.Keys), output.Amount(e.AllKeys, "key", "keys"), percent(e.Ratio), percent(e.RatioError), e.From, e.To)
}
