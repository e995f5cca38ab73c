package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

// importFlags are the flags of 'block import' and 'exemption import'.
type importFlags struct {
	wire.EntryImport
	format, onConflict string
	end                endFlags
	confirmBroad       bool
}

// importHelp is what the help of an import says of one kind of entries.
type importHelp struct{ dryRun, broad, example, conflict string }

var blockImport = importHelp{
	dryRun: `--dry-run changes nothing, exits as the import would, and prints how many rows are new,
unchanged, invalid and exempt, and an estimate of how much of the last day's traffic they
would have refused beside what is blocked or exempt already.`,
	broad: `Broad blocks need a confirmation: every key (*, 0.0.0.0/0, ip:*), all keys of a kind,
networks larger than a /16 or an IPv6 /32, also if several rows add up to one, rows that
together refuse more than 1% of the last day's allowed checks or cover as much as a /8 or an
IPv6 /24, and your own address. They are listed with their impact and the exit code is 6;
--yes imports them.`,
	example: `admin block import scrapers.csv --permanent --dry-run
admin block import addresses.txt --reason "public list" --for 7d --skip-bad
admin block import bogons.txt --reason "not routed" --permanent --yes
admin block export | admin block import - --format csv --permanent --on-conflict extend`,
	conflict: "blocked",
}

var exemptionImport = importHelp{
	dryRun: `--dry-run changes nothing, exits as the import would, and prints how many rows are new,
unchanged and invalid.`,
	broad: `Broad exemptions need a confirmation: every key (*, 0.0.0.0/0, ip:*), all keys of a kind,
networks larger than a /16 or an IPv6 /32, also if several rows add up to one, and rows that
together cover as much as a /8 or an IPv6 /24. They are listed and the exit code is 6;
--yes imports them.

Rows of blocks are invalid: an export of blocks exempts nobody.`,
	example: `admin exemption import partners.csv --permanent --dry-run
admin exemption import monitoring.txt --reason "our monitoring" --for 30d --skip-bad`,
	conflict: "exempt",
}

func (e *entryCommand) newImport(help importHelp) *cobra.Command {
	var f importFlags
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Add " + e.noun + "s from a file, up to a million at once",
		Long: "Add " + e.noun + `s from a file, - for standard input: all or nothing, or with --skip-bad only the
valid rows. A file is CSV with named columns or JSON, whose columns or members are
` + blocklist.UsualColumns + `;
a file that CrowdSec imports (value, scope, duration, reason); or a plain list: one pattern per
line, # before comments. It may also be what others publish or print, which docs/LISTS.md names:
JSON of Spamhaus, clouds and crawlers, AbuseIPDB, 'cscli decisions list', 'ipset save', DShield,
'fail2ban-client get JAIL banip --with-time', each packed by gzip or not. Any other table is read
by --column. --reason applies to rows without one, and so does --for, --until or
--permanent, of which one must be given. Rows with an ended_at, as an export of
ended ` + e.noun + `s has, are left out.

A pattern is read as by '` + e.noun + ` add', and a row is invalid where that refuses it. literal
true, or in a plain list double quotes, says that it is meant exactly as written; --literal
says it of all rows.

` + help.dryRun + "\n\n" + help.broad,
		Example: help.example,
		Args:    cobra.ExactArgs(1),
		RunE: online(e.Console, func(c *cobra.Command, server *client.Client, args []string) error {
			if err := f.end.requireChoice(); err != nil {
				return err
			}
			answer, err := e.importFile(c.Context(), server, args[0], &f)
			if err != nil {
				return err
			}
			if err := printImport(e.Console, e.noun, answer); err != nil || !f.DryRun {
				return err
			}
			return foretell(answer.Rows, answer.Invalid, f.SkipBad, answer.Confirm != "" && !f.confirmBroad)
		}),
	}
	flags := c.Flags()
	flags.StringVar(&f.format, "format", "", "csv, json, plain or auto; by the file's extension or content if omitted")
	flags.StringVar(&f.Column, "column", "", "where the patterns are in a table of another form: the name or number of a column, or the name of a member in JSON")
	flags.StringVar(&f.onConflict, "on-conflict", "", "if a pattern is already "+help.conflict+": keep (the default), extend or replace")
	flags.StringVar(&f.Source, "source", "", "the source of the rows, for example the name of a list: it has a part of its own in each "+e.noun)
	flags.StringVar(&f.Reason, "reason", "", "the reason of rows without one")
	flags.BoolVar(&f.SkipBad, "skip-bad", false, "skip invalid rows instead of importing nothing")
	flags.BoolVar(&f.DryRun, "dry-run", false, "print what would change without changing it, and exit as the import would")
	literalFlag(c, &f.Literal)
	flags.BoolVar(&f.confirmBroad, "yes", false, "import broad "+e.noun+"s too; they are still listed")
	f.end.addWithPermanent(c, "rows without an expiry are active", "")
	return c
}

// foretell returns the error with which an import would end after a dry run of it, nil if it would
// succeed.
func foretell(rows, invalid int, skipBad, needsYes bool) error {
	switch {
	case invalid > 0 && !skipBad:
		return console.Usagef("%d of the %d rows are invalid, so that the import would change nothing; correct them, or leave them out by --skip-bad", invalid, rows)
	case needsYes:
		return &console.ExitError{Code: console.Unconfirmed, Err: errors.New("the import would change nothing without --yes")}
	}
	return nil
}

// importMedia are the media types by the name of a format or a file's extension.
var importMedia = map[string]string{
	"csv": "text/csv", "json": "application/json", "plain": "text/plain",
	".csv": "text/csv", ".json": "application/json", ".jsonl": "application/x-ndjson", ".ndjson": "application/x-ndjson",
	".txt": "text/plain", ".list": "text/plain", ".netset": "text/plain", ".ipset": "text/plain",
}

// mediaOf returns the media type of a format or, if it is "", of a file's extension. allowed
// are the formats that the file may have.
func mediaOf(path, format, allowed string) (string, error) {
	name := format
	if name == "" {
		name = strings.ToLower(filepath.Ext(path))
	}
	media, known := importMedia[name]
	switch {
	case known && (media != importMedia["plain"] || strings.Contains(allowed, "plain")):
		return media, nil
	case path == "-":
		return "", console.Usagef("give --format for standard input: %s", allowed)
	}
	return "", console.Usagef("the format of %q is unknown; set --format to %s", path, allowed)
}

// entryMediaOf returns the media type of a file of entries: that of its format or, if that is "", of
// its extension. The server finds the format of others by their content.
func entryMediaOf(path, format string) (string, error) {
	isTable := slices.Contains([]string{".csv", ".json", ".jsonl", ".ndjson"}, strings.ToLower(filepath.Ext(path)))
	if format == "auto" || format == "" && !isTable {
		return "application/octet-stream", nil
	}
	return mediaOf(path, format, "auto, csv, json or plain")
}

func (e *entryCommand) importFile(ctx context.Context, server *client.Client, path string, f *importFlags) (*wire.ImportAnswer, error) {
	con := e.Console
	media, err := entryMediaOf(path, f.format)
	if err != nil {
		return nil, err
	}
	file, err := con.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if f.confirmBroad { // it may have to be sent twice
		if err := file.Keep(); err != nil {
			return nil, err
		}
	}
	in := f.EntryImport
	in.ExpiresIn, in.ExpiresAt = f.end.in.Duration, f.end.at.Time
	send := func(from io.Reader) (wire.ImportAnswer, error) {
		return e.importFrom(ctx, server, in, f.onConflict, from, media)
	}
	answer, err := sendFile(con, file, send)
	broad := broadOf(err)
	if broad == nil {
		return &answer, err
	}
	printBroad(con, e.noun, broad.Broad, broad.BroadCount)
	if !f.confirmBroad {
		return nil, &console.ExitError{Code: console.Unconfirmed, Err: fmt.Errorf("%s is broad and nothing was imported. To import it all the same, repeat the command with --yes", inputName(path))}
	}
	in.Confirm = broad.Confirm
	if err := file.Rewind(); err != nil {
		return nil, err
	}
	answer, err = sendFile(con, file, send)
	if broadOf(err) != nil {
		return nil, &console.ExitError{Code: console.Unconfirmed, Err: fmt.Errorf("%w What is active or the traffic changed since the first answer; repeat the command", err)}
	}
	return &answer, err
}

func inputName(path string) string {
	if path == "-" {
		return "standard input"
	}
	return strconv.Quote(path)
}

// broadRows is the part of a problem that lists the rows to confirm.
type broadRows struct {
	Confirm    string
	BroadCount int
	Broad      []wire.BroadRow
}

// broadOf returns the rows to confirm, or nil if err does not ask for a confirmation.
func broadOf(err error) *broadRows {
	var problem *wire.Problem
	var b broadRows
	if !errors.As(err, &problem) || problem.Code != "confirmation_required" ||
		json.Unmarshal(problem.More["confirm"], &b.Confirm) != nil ||
		json.Unmarshal(problem.More["broad_count"], &b.BroadCount) != nil ||
		json.Unmarshal(problem.More["broad"], &b.Broad) != nil {
		return nil
	}
	return &b
}

// printBroad lists the broad rows of blocks or exemptions and their impact.
func printBroad(con *console.Console, noun string, all []wire.BroadRow, count int) {
	overlap := "Stays allowed by the exemption of %s."
	if noun == "exemption" {
		overlap = "Overlaps the exemption of %s."
	}
	con.Notef("These rows are broad:")
	for _, b := range all {
		what := fmt.Sprintf("line %d", b.Line)
		if b.Rows > 1 {
			what = fmt.Sprintf("%d rows from line %d on", b.Rows, b.Line)
		}
		if b.Pattern != "" {
			what += ", " + output.Escape(string(b.Pattern))
		}
		con.Notef("  %s: %s.", what, output.Escape(b.ConfirmReason))
		if b.Estimate != nil {
			con.Notef("    "+matches, estimateSentence(b.Estimate))
		}
		if b.BlocksCaller {
			con.Notef("    It refuses your own address.")
		}
		for _, e := range b.Exemptions {
			con.Notef("    "+overlap, output.Escape(e))
		}
	}
	if more := count - len(all); more > 0 {
		con.Notef("  And %d more.", more)
	}
}

// sendFile sends a file and shows how much of it is sent.
func sendFile[T any](con *console.Console, file *console.Input, send func(io.Reader) (T, error)) (T, error) {
	bar := con.Progress()
	defer bar.End()
	return send(&countingReader{from: file, report: func(done int64) { bar.Show("sending", done, file.Size, true) }})
}

// countingReader reports how many bytes were read.
type countingReader struct {
	from   io.Reader
	done   int64
	report func(done int64)
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.done += int64(n)
	r.report(r.done)
	return n, err
}

func printImport(con *console.Console, noun string, i *wire.ImportAnswer) error {
	p, columns := con.Printer(), importColumns
	if noun == "exemption" {
		columns = slices.DeleteFunc(slices.Clone(columns), func(c output.Column[*wire.ImportAnswer]) bool { return c.Name == "exempt" })
	}
	if p.Format != output.Table {
		return output.One(p, i, columns)
	}
	if err := printRows(p, i, columns, i.DryRun, i.InvalidRows, i.Invalid); err != nil {
		return err
	}
	if i.Estimate != nil {
		p.Sayf("Beside what is blocked or exempt already, they would have refused %s", estimateSentence(i.Estimate))
	}
	if i.Confirm != "" {
		printBroad(con, noun, i.Broad, i.BroadCount)
	}
	return nil
}

// printRows prints the result of an import or a dry run, and the invalid rows.
func printRows[T any](p *output.Printer, i T, columns []output.Column[T], isDryRun bool, bad []wire.BadRow, invalid int) error {
	if isDryRun {
		p.Sayf("This is a dry run: nothing was changed.")
	}
	if err := output.One(p, i, columns); err != nil {
		return err
	}
	for _, row := range bad {
		p.Sayf("  line %d: %s", row.Line, output.Escape(row.Problem))
	}
	if more := invalid - len(bad); more > 0 {
		p.Sayf("  And %d more.", more)
	}
	return nil
}

var importColumns = output.Columns[*wire.ImportAnswer](`rows: Rows, created: New, extended: Extended, replaced: Replaced, unchanged: Unchanged,
	invalid: Invalid, exempt: Exempt, dry_run, ended: Ended`)

// exportHelp is the help of an export.
type exportHelp struct {
	formats  string // that its refusal of YAML names
	long     string
	examples string
	hasPlain bool
}

var blockExport = exportHelp{
	formats: "as CSV, as JSON with -o json, or with --plain",
	long: `Write the active blocks, or those that match the flags, as a file that 'block import'
reads: CSV, JSON with -o json, or with --plain one pattern per line. Blocks that have ended
have an ended_at and are not imported; a plain list leaves them out.`,
	examples: "admin block export > blocks.csv\nadmin block export -o json > blocks.json\nadmin block export --plain --within 'ip:*' > addresses.txt",
	hasPlain: true,
}

var exemptionExport = exportHelp{
	formats: "as CSV, or as JSON with -o json",
	long: `Write the active exemptions, or those that match the flags, as a file that 'exemption import'
reads and 'block import' refuses: CSV, or JSON with -o json. Exemptions that have ended have
an ended_at and are not imported.`,
	examples: "admin exemption export > exemptions.csv\nadmin exemption export -o json > exemptions.json",
}

func (e *entryCommand) newExport(help exportHelp) *cobra.Command {
	var f wire.EntryFilter
	var plain bool
	c := &cobra.Command{
		Use:     "export",
		Short:   "Write " + e.noun + "s as a file that import reads",
		Long:    help.long,
		Example: help.examples,
		Args:    cobra.NoArgs,
		RunE: online(e.Console, func(c *cobra.Command, server *client.Client, _ []string) error {
			format := "csv"
			switch {
			case plain:
				format = "plain"
			case e.Format == string(output.YAML):
				return console.Usagef("%ss are exported %s; for YAML see '%s list -o yaml'", e.noun, help.formats, e.noun)
			case e.Format == string(output.JSON):
				format = "json"
			}
			file, err := e.export(c.Context(), server, format, f)
			if err != nil {
				return err
			}
			defer file.Close()
			_, err = io.Copy(e.Printer().Document(), file)
			return err
		}),
	}
	entryFilterFlags(c, &f)
	if help.hasPlain {
		c.Flags().BoolVar(&plain, "plain", false, "one pattern per line")
	}
	return c
}
