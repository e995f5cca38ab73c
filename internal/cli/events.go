package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func init() { addCommands(monitor, newExplain, newEvents) }

// resumeAfter is how long to wait before reconnecting a broken stream.
const resumeAfter = time.Second

func newEvents(con *console.Console) *cobra.Command {
	var kind, decision []string
	var policy, path, pattern string
	var count int
	c := &cobra.Command{
		Use:   "events",
		Short: "Show decisions, blocks, changes and holds live",
		Long: `Show decisions, blocks, changes and what becomes of holds as they happen, until Ctrl-C. Under
load the server sends a sample of the decisions and holds and says so. A broken stream is
resumed where it ended.
With -o json each event is one line of JSON.`,
		Example: "admin events\nadmin events --kind decision --decision limited,blocked --pattern ip:203.0.113.0/24\nadmin events --kind block,change -o json",
		Args:    cobra.NoArgs,
		RunE: online(con, func(c *cobra.Command, server *client.Client, _ []string) error {
			if con.Format == string(output.CSV) {
				return console.Usagef("events prints a table or, with -o json, a line of JSON for each event")
			}
			filter := url.Values{}
			setIf(filter, "kind", strings.Join(kind, ","))
			setIf(filter, "decision", strings.Join(decision, ","))
			setIf(filter, "policy", policy)
			setIf(filter, "path", path)
			setIf(filter, "pattern", pattern)
			return followEvents(c.Context(), con, server, filter, count)
		}),
	}
	c.Flags().StringSliceVar(&kind, "kind", nil, "only decision, block, change or hold; may be repeated")
	c.Flags().StringSliceVar(&decision, "decision", nil, "only allowed, limited, blocked, challenged or unavailable; may be repeated")
	c.Flags().StringVar(&policy, "policy", "", "only of this policy")
	c.Flags().StringVar(&path, "path", "", "only requests whose path matches, for example /search*")
	c.Flags().StringVar(&pattern, "pattern", "", "only keys that this pattern covers")
	c.Flags().IntVar(&count, "count", 0, "end after this many events, 0 for never")
	return c
}

// followEvents prints events until count of them arrived or the user interrupts, and then
// returns nil. A failure before the first event is an error.
func followEvents(ctx context.Context, con *console.Console, server *client.Client, filter url.Values, count int) error {
	last, seen, open := "", 0, false
	watching := func() {
		if !open {
			con.Notef("Watching; Ctrl-C ends it.")
		}
		open = true
	}
	for {
		for event, err := range server.Events(ctx, filter, last, watching) {
			var broken *client.Unreachable
			switch {
			case ctx.Err() != nil:
				return nil
			case errors.As(err, &broken) && open:
				con.Notef("%s; reconnecting.", output.Escape(broken.Error()))
				continue
			case err != nil:
				return err
			}
			if event.ID != "" {
				last = event.ID
			}
			if err := printEvent(con, &event.Event); err != nil {
				return err
			}
			if seen++; seen == count {
				return nil
			}
		}
		select {
		case <-time.After(resumeAfter):
		case <-ctx.Done():
			return nil
		}
	}
}

func printEvent(con *console.Console, e *wire.Event) error {
	p := con.Printer()
	if p.Format == output.JSON {
		return p.JSONLine(e)
	}
	parts := []string{e.At.Format("15:04:05.000"), fmt.Sprintf("%-8s", output.Escape(e.Kind))}
	switch {
	case e.Notice != "":
		parts = append(parts, output.Escape(e.Notice))
	case e.Change != nil:
		parts = append(parts, output.Escape(e.Change.Actor.Name+": "+e.Change.Summary))
	case e.Hold != nil:
		parts = append(parts, fmt.Sprintf("%-8s", output.Escape(e.Hold.State)), output.Escape(e.Key), holdText(e.Hold), "under "+output.Escape(string(e.Policy)))
	default:
		parts = append(parts, decisionParts(e)...)
	}
	line := strings.Join(parts, "  ")
	if p.Width > 0 {
		line = output.CutMiddle(line, p.Width)
	}
	p.Sayf("%s", line)
	return con.Out().Err()
}

// holdText says what is held, or was used of it.
func holdText(h *wire.HoldChange) string {
	text := humanize.Comma(h.Cost)
	if h.Cost != h.Held {
		text += " of " + humanize.Comma(h.Held)
	}
	if h.Over > 0 {
		text += ", " + humanize.Comma(h.Over) + " beyond a limit"
	}
	return text
}

// decisionParts returns the columns of a decision's line.
func decisionParts(e *wire.Event) []string {
	what := e.Decision
	if e.Reported != "" {
		what = "reported " + e.Reported
	}
	parts := []string{fmt.Sprintf("%-7s", output.Escape(what)), output.Escape(e.Key)}
	if asked := strings.TrimSpace(strings.ToUpper(e.Method) + " " + e.Path); asked != "" {
		parts = append(parts, output.Escape(asked))
	}
	switch {
	case e.Rule != "":
		parts = append(parts, "by "+output.Escape(e.Rule)+" of "+output.Escape(string(e.Policy)))
	case e.Block != "":
		parts = append(parts, "by block "+output.Escape(e.Block))
	case e.Policy != "":
		parts = append(parts, "by "+output.Escape(string(e.Policy)))
	}
	if e.Refusal != "" {
		parts = append(parts, output.Escape(e.Refusal))
	}
	if e.Source != "" {
		parts = append(parts, "from "+output.Escape(e.Source))
	}
	if e.Degraded != "" {
		parts = append(parts, "degraded: "+output.Escape(e.Degraded))
	}
	return parts
}

func newExplain(con *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "explain ID",
		Short: "Explain a refusal by its id",
		Long: `Explain a refusal by its id. Refusals of one key under one policy
within one minute share an id.`,
		Example: "admin explain 01M84HRKV0XB90539ZDAXJCCYG",
		Args:    cobra.ExactArgs(1),
		RunE: online(con, func(c *cobra.Command, server *client.Client, args []string) error {
			record, err := client.Call(c.Context(), server, wire.GetOffence, wire.ByID{ID: args[0]})
			if err != nil {
				return err
			}
			if err := printOffence(con.Printer(), &record); err != nil {
				return err
			}
			if record.Found == "none" {
				return &console.ExitError{Code: console.NotFound} // the message was already printed
			}
			return nil
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

var offenceColumns = output.Columns(`decision: Decision, refused_by: By (cut), count: Times, count_max, first_at=first.at: First,
	first_boundary_at=first.boundary_at: Waited for (drop 1), first_retry_at=first.retry_at: Retry at (drop 2),
	last_at=last.at: Last (drop 3), source=last.source: Source (drop 4), meta: Metadata (cut drop 5)`, output.Cells[wire.Offence]{
	"meta": func(o wire.Offence) output.Cell { return metaCell(o.Last.Meta) },
})

// metaCell formats a check's metadata, sorted by name.
func metaCell(meta map[string]string) output.Cell {
	var all []string
	for name, value := range meta {
		all = append(all, name+"="+value)
	}
	slices.Sort(all)
	return output.Text(strings.Join(all, " "))
}
