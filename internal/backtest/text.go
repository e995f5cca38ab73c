package backtest

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
)

// TextOptions say how a report is laid out. The zero value is usable.
type TextOptions struct {
	// Width is the number of columns of the terminal; longer keys are cut to
	// fit. 0 means 100, and less than 60 counts as 60.
	Width int
	// Top is how many keys each table shows. 0 means 20, below 0 all.
	Top int
}

func (o TextOptions) withDefaults() TextOptions {
	if o.Width == 0 {
		o.Width = 100
	}
	o.Width = max(o.Width, 60)
	if o.Top == 0 {
		o.Top = 20
	}
	return o
}

// WriteText writes the report as tables of plain text for a terminal. Keys and
// log lines are escaped, so nothing in them reaches the terminal as a command.
func (r *Report) WriteText(w io.Writer, o TextOptions) error {
	o = o.withDefaults()
	out := bufio.NewWriter(w) // it keeps the first error for Flush
	r.writeInput(out)
	if known := r.Site.String(); known != "" {
		fmt.Fprintln(out, known)
	}
	r.writeTotals(out)
	writeRules(out, o, r.Rules, r.Refused, "RULE")
	writeReports(out, o, r.Reports, "REPORTS TO")
	writeEvidence(out, o, r.Evidence, "EVIDENCE")
	writeEscalations(out, o, r.Escalations, "ESCALATION")
	r.Score.writeText(out, o, "")
	r.writeOffenders(out, o)
	if c := r.Comparison; c != nil {
		fmt.Fprintf(out, "\nAgainst    %s\n", printable(c.Against))
		fmt.Fprintf(out, "Allowed    %s\nRefused    %s\n", withRatio(c.Allowed, r.Requests), withRatio(c.Refused, r.Requests))
		writeRules(out, o, c.Rules, c.Refused, "RULE AGAINST")
		writeReports(out, o, c.Reports, "REPORTS AGAINST")
		writeEvidence(out, o, c.Evidence, "EVIDENCE AGAINST")
		writeEscalations(out, o, c.Escalations, "ESCALATION AGAINST")
		c.Score.writeText(out, o, " AGAINST")
		writeChanges(out, o, "newly refused", "NEWLY REFUSED", c.NewlyRefused, c.NewlyRefusedKeys)
		writeChanges(out, o, "newly allowed", "NEWLY ALLOWED", c.NewlyAllowed, c.NewlyAllowedKeys)
	}
	return out.Flush()
}

func (r *Report) writeInput(out io.Writer) {
	if r.Input == nil {
		return
	}
	fmt.Fprintf(out, "Read       %s", counted(r.Input.Lines, "line"))
	if r.Input.OutOfOrder > 0 {
		fmt.Fprintf(out, ", %s out of order and sorted", humanize.Comma(r.Input.OutOfOrder))
	}
	if r.Input.Skipped > 0 {
		fmt.Fprintf(out, ", %s skipped", humanize.Comma(r.Input.Skipped))
	}
	fmt.Fprintln(out)
	if r.Input.Bad == 0 {
		return
	}
	fmt.Fprintf(out, "Bad lines  %s", withRatio(r.Input.Bad, r.Input.Lines))
	if more := r.Input.Bad - int64(len(r.Input.First)); more > 0 {
		fmt.Fprintf(out, ", of which the first %d", len(r.Input.First))
	}
	fmt.Fprintln(out)
	for _, bad := range r.Input.First {
		fmt.Fprintf(out, "  %s:%d: %s\n    %s\n", printable(bad.File), bad.Line, bad.Why, bad.Text)
	}
}

func (r *Report) writeTotals(out io.Writer) {
	fmt.Fprintf(out, "Rules      %s\n", printable(r.Plan))
	fmt.Fprintf(out, "Requests   %s from %s", humanize.Comma(r.Requests), counted(r.Keys, "key"))
	if r.Requests > 0 {
		fmt.Fprintf(out, ", %s to %s", instant(r.First), instant(r.Last))
	}
	fmt.Fprintln(out)
	fmt.Fprintf(out, "Allowed    %s", withRatio(r.Allowed, r.Requests))
	if r.Unlimited > 0 {
		fmt.Fprintf(out, ", %s of them under no rule", humanize.Comma(r.Unlimited))
	}
	fmt.Fprintf(out, "\nRefused    %s", withRatio(r.Refused, r.Requests))
	if r.TooCostly > 0 {
		fmt.Fprintf(out, ", %s of them for a cost that the rules never allow", humanize.Comma(r.TooCostly))
	}
	if r.Blocked > 0 {
		fmt.Fprintf(out, ", %s of them by automatic blocks", humanize.Comma(r.Blocked))
	}
	if r.Challenged > 0 {
		fmt.Fprintf(out, ", %s of them challenged: browsers that solve a challenge go on", humanize.Comma(r.Challenged))
	}
	fmt.Fprintln(out)
	if r.Estimate {
		fmt.Fprintln(out, "Estimate   the recording holds only some of the requests")
	}
}

func writeRules(out io.Writer, o TextOptions, counts []RuleCount, refused int64, title string) {
	if len(counts) == 0 {
		return
	}
	t := table{columns: []column{{title: title, wide: true}, {title: "FAILED"}, {title: "OF REFUSALS"}, {title: "ALONE"}}}
	for _, c := range counts {
		t.add(c.name(), humanize.Comma(c.Failed), percent(c.Failed, refused), humanize.Comma(c.Alone))
	}
	t.write(out, o.Width)
}

func writeReports(out io.Writer, o TextOptions, counts []ReportCount, title string) {
	if len(counts) == 0 {
		return
	}
	t := table{columns: []column{{title: title, wide: true}, {title: "CHARGED"}, {title: "INTO A FULL LIMIT"}, {title: "VALUE NOT SAID"}}}
	for _, c := range counts {
		t.add(c.name(), humanize.Comma(c.Charged), humanize.Comma(c.Full), humanize.Comma(c.Unsaid))
	}
	t.write(out, o.Width)
}

func writeEscalations(out io.Writer, o TextOptions, counts []EscalationCount, title string) {
	if len(counts) == 0 {
		return
	}
	t := table{columns: []column{{title: title, wide: true}, {title: "KEYS BLOCKED"}, {title: "FURTHER KEYS"}, {title: "BLOCKS"}, {title: "REFUSED"}}}
	for _, c := range counts {
		t.add(c.name(), humanize.Comma(c.Keys), humanize.Comma(c.DerivedKeys), humanize.Comma(c.Blocks), humanize.Comma(c.Refused))
	}
	t.write(out, o.Width)
}

// writeText writes the tables of a score, nothing for nil. plan is added to their titles.
func (s *Score) writeText(out io.Writer, o TextOptions, plan string) {
	if s == nil {
		return
	}
	t := table{columns: []column{
		{title: "ATTACKERS" + plan, wide: true}, {title: "CAUGHT"}, {title: "SERVED UNTIL"}, {title: "MOST"}, {title: "TIME UNTIL"}, {title: "MOST"}, {title: "SERVED"}, {title: "RANGES"},
	}}
	for _, a := range s.Attackers {
		caught := fmt.Sprintf("%s of %s", humanize.Comma(a.Caught), humanize.Comma(a.Attackers))
		served := percent(a.Served, a.Requests)
		if a.Caught == 0 {
			t.add(printable(a.Label), caught, "-", "-", "-", "-", served, humanize.Comma(a.InRanges))
			continue
		}
		t.add(printable(a.Label), caught, humanize.Comma(a.ServedMedian), humanize.Comma(a.ServedMax), Seconds(a.TimeMedian), Seconds(a.TimeMax), served, humanize.Comma(a.InRanges))
	}
	if len(s.Attackers) > 0 {
		t.write(out, o.Width)
	}
	t = table{columns: []column{
		{title: "BENIGN" + plan, wide: true}, {title: "CLIENTS"}, {title: "EVER REFUSED"}, {title: "REQUESTS"}, {title: "REFUSED"}, {title: "SHARE"}, {title: "RANGES"},
	}}
	for _, b := range s.Benign {
		t.add(printable(b.Label), humanize.Comma(b.Clients), humanize.Comma(b.ClientsRefused), humanize.Comma(b.Requests), humanize.Comma(b.Refused), percent(b.Refused, b.Requests), humanize.Comma(b.InRanges))
	}
	if len(s.Benign) > 0 {
		t.write(out, o.Width)
	}
	if r := s.Ranges; r != nil {
		t = table{columns: []column{{title: "RANGES PROPOSED" + plan, wide: true}, {title: "ATTACKERS IN THEM"}, {title: "BENIGN IN THEM"}}}
		t.add(humanize.Comma(r.Proposed), fmt.Sprintf("%s of %s", humanize.Comma(r.AttackersCovered), humanize.Comma(r.Attackers)),
			fmt.Sprintf("%s of %s", humanize.Comma(r.BenignCovered), humanize.Comma(r.Benign)))
		t.write(out, o.Width)
	}
	if s.Absent > 0 && plan == "" {
		fmt.Fprintf(out, "%s of the truth made no request\n", counted(s.Absent, "key"))
	}
}

// Seconds writes a time of a score, to the second below an hour and to the minute above.
func Seconds(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	if d >= time.Hour {
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return d.String()
}

func (r *Report) writeOffenders(out io.Writer, o TextOptions) {
	if len(r.Offenders) == 0 {
		return
	}
	t := table{columns: []column{
		{title: "OFFENDER", wide: true}, {title: "REFUSED"}, {title: "SHARE"}, {title: "REQUESTS"}, {title: "FIRST REFUSAL"}, {title: "BY"},
	}}
	shown := topOf(r.Offenders, o.Top)
	for _, f := range shown {
		t.add(printable(f.Key), humanize.Comma(f.Refused), percent(f.Refused, r.Refused), humanize.Comma(f.Requests),
			instant(f.First), ruleName(f.FirstPolicy, f.FirstRule))
		t.note(f.Lines()...)
	}
	t.write(out, o.Width)
	writeMore(out, len(r.Offenders)-len(shown), "offender")
}

func writeChanges(out io.Writer, o TextOptions, what, title string, requests int64, changes []Change) {
	fmt.Fprintf(out, "\n%s of %s %s %s\n", counted(requests, "request"), counted(int64(len(changes)), "key"),
		english.PluralWord(int(requests), "is", "are"), what)
	if len(changes) == 0 {
		return
	}
	t := table{columns: []column{
		{title: title, wide: true}, {title: "CHANGED"}, {title: "REQUESTS"}, {title: "REFUSED"}, {title: "AGAINST"}, {title: "FIRST"},
	}}
	shown := topOf(changes, o.Top)
	for _, c := range shown {
		t.add(printable(c.Key), humanize.Comma(c.Changed), humanize.Comma(c.Requests), humanize.Comma(c.Refused),
			humanize.Comma(c.RefusedAgainst), instant(c.First))
	}
	t.write(out, o.Width)
	writeMore(out, len(changes)-len(shown), "key")
}

func writeMore(out io.Writer, more int, what string) {
	if more > 0 {
		fmt.Fprintf(out, "... and %s more %s\n", humanize.Comma(int64(more)), english.PluralWord(more, what, ""))
	}
}

func topOf[T any](all []T, maxRows int) []T {
	if maxRows < 0 || len(all) < maxRows {
		return all
	}
	return all[:maxRows]
}

func counted(n int64, what string) string {
	return humanize.Comma(n) + " " + english.PluralWord(int(n), what, "")
}

func ruleName(policy, rule string) string {
	if policy == "" {
		return rule
	}
	return printable(policy) + " " + rule
}

func withRatio(part, whole int64) string {
	if whole == 0 {
		return humanize.Comma(part)
	}
	return humanize.Comma(part) + " (" + percent(part, whole) + ")"
}

// percent writes a share so that no part of something reads 0 % or 100 % but
// nothing and all of it.
func percent(part, whole int64) string {
	if whole == 0 {
		return "-"
	}
	text := strconv.FormatFloat(100*float64(part)/float64(whole), 'f', 2, 64) + " %"
	switch {
	case text == "0.00 %" && part > 0:
		return "<0.01 %"
	case text == "100.00 %" && part < whole:
		return ">99.99 %"
	}
	return text
}

func instant(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// printable returns text unchanged if every character is printable, and otherwise quoted
// with escapes.
func printable(text string) string {
	for _, c := range text {
		if c == utf8.RuneError || !strconv.IsPrint(c) {
			return strconv.Quote(text)
		}
	}
	return text
}
