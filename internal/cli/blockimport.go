package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

// importFlags are the flags of 'block import'.
type importFlags struct {
	format, onConflict, reason string
	end                        endFlags
	skipBad, dryRun            bool
	confirmBroad               bool
}

func newBlockImport(a *app) *cobra.Command {
	var f importFlags
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Add blocks from a file, up to a million at once",
		Long: `Add blocks from a file, - for standard input: all or nothing, or with --skip-bad those that
are right. A file is CSV with named columns (pattern, and where there are some reason and
expires_at), JSON, or a plain list: one address, CIDR or pattern a line, # before comments.
--reason, --for and --until hold for the rows that say nothing themselves.

--dry-run changes nothing and says how many are new, known, invalid and exempt, and how
much of the last day's traffic they would have refused, by an estimate.

What is broad is not imported before it is confirmed: every key (*, 0.0.0.0/0, ip:*), all of
a kind, networks wider than a /16 or, of IPv6, a /32, also where several rows make them
together, rows that together refuse more than 1 % of the last day's checks or select as much
as a /8 or, of IPv6, a /24, and your own address. It is listed with whom it would hit and the
exit code is 6; --confirm-broad imports it.`,
		Example: `admin block import scrapers.csv --dry-run
admin block import addresses.txt --reason "public list" --for 7d --skip-bad
admin block import bogons.txt --reason "not routed" --confirm-broad
admin block export | admin block import - --format csv --on-conflict extend`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			answer, err := a.importBlocks(c.Context(), args[0], &f)
			if err != nil {
				return err
			}
			return a.printImport(answer)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.format, "format", "", "csv, json or plain; by the file's ending where it is left out")
	flags.StringVar(&f.onConflict, "on-conflict", "", "where a pattern is blocked already: fail (leave it as it is), extend or replace")
	flags.StringVar(&f.reason, "reason", "", "why, for the rows without a reason")
	flags.BoolVar(&f.skipBad, "skip-bad", false, "leave bad rows out instead of importing nothing")
	flags.BoolVar(&f.dryRun, "dry-run", false, "say what would be done and change nothing")
	flags.BoolVar(&f.confirmBroad, "confirm-broad", false, "import also what is broad; it is listed all the same")
	f.end.add(c, "the rows without an end stand")
	return c
}

// importMedia are the media types of the formats, by their names and by the
// endings of files.
var importMedia = map[string]string{
	"csv": "text/csv", "json": "application/json", "plain": "text/plain",
	".csv": "text/csv", ".json": "application/json", ".jsonl": "application/x-ndjson", ".ndjson": "application/x-ndjson",
	".txt": "text/plain", ".list": "text/plain", ".netset": "text/plain", ".ipset": "text/plain",
}

func (f *importFlags) media(path string) (string, error) {
	name := f.format
	if name == "" {
		name = strings.ToLower(filepath.Ext(path))
	}
	media, known := importMedia[name]
	if !known {
		return "", usagef("what %q holds is not plain from its name; say --format csv, json or plain", path)
	}
	return media, nil
}

func (f *importFlags) options() url.Values {
	options := url.Values{}
	setIf(options, "on_conflict", f.onConflict)
	setIf(options, "reason", f.reason)
	setIf(options, "expires_in", f.end.in.String())
	setIf(options, "expires_at", f.end.at.Time.String())
	if f.skipBad {
		options.Set("skip_bad", "true")
	}
	if f.dryRun {
		options.Set("dry_run", "true")
	}
	return options
}

func (a *app) importBlocks(ctx context.Context, path string, f *importFlags) (*wire.ImportAnswer, error) {
	media, err := f.media(path)
	if err != nil {
		return nil, err
	}
	to, err := a.client()
	if err != nil {
		return nil, err
	}
	var file *os.File
	switch {
	case path != "-":
		file, err = os.Open(path)
	case f.confirmBroad: // it may have to be sent twice
		file, err = spooled(a.sys.Stdin)
	default:
		file = a.sys.Stdin
	}
	if err != nil {
		return nil, err
	}
	if file != a.sys.Stdin {
		defer file.Close()
	}
	answer, err := a.sendImport(ctx, to, file, media, f.options())
	broad := broadOf(err)
	if broad == nil {
		return answer, err
	}
	a.tellBroad(broad.Broad, broad.BroadCount)
	if !f.confirmBroad {
		return nil, &exitError{Unconfirmed, fmt.Errorf("%s is broad and nothing was imported. Where what is listed is meant, repeat the command with --confirm-broad", about(path))}
	}
	options := f.options()
	options.Set("confirm", broad.Confirm)
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	if answer, err = a.sendImport(ctx, to, file, media, options); broadOf(err) != nil {
		return nil, &exitError{Unconfirmed, fmt.Errorf("%w Something changed meanwhile; repeat the command", err)}
	}
	return answer, err
}

// spooled copies what cannot be read twice to a file that goes with the
// process.
func spooled(from io.Reader) (*os.File, error) {
	file, err := os.CreateTemp("", "stint-import-*")
	if err != nil {
		return nil, err
	}
	err = os.Remove(file.Name())
	if err == nil {
		_, err = io.Copy(file, from)
	}
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

func about(path string) string {
	if path == "-" {
		return "standard input"
	}
	return strconv.Quote(path)
}

// broadRows is what a problem says of a file that needs a confirmation.
type broadRows struct {
	Confirm    string
	BroadCount int
	Broad      []wire.BroadRow
}

// broadOf returns what of a file must be confirmed by an answer, nil for any
// other.
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

// tellBroad lists the broad rows with whom they would hit.
func (a *app) tellBroad(all []wire.BroadRow, count int) {
	a.notef("What is broad, and whom it would hit:")
	for _, b := range all {
		what := fmt.Sprintf("line %d", b.Line)
		if b.Rows > 1 {
			what = fmt.Sprintf("%d rows from line %d on", b.Rows, b.Line)
		}
		if b.Pattern != "" {
			what += ", " + output.Escape(string(b.Pattern))
		}
		a.notef("  %s: %s.", what, output.Escape(b.ConfirmReason))
		if b.Estimate != nil {
			a.notef("    It would have refused %s", estimateSentence(b.Estimate))
		}
		if b.BlocksCaller {
			a.notef("    It refuses your own address.")
		}
		for _, e := range b.Exemptions {
			a.notef("    Stays open by the exemption of %s.", output.Escape(e))
		}
	}
	if more := count - len(all); more > 0 {
		a.notef("  And %d more.", more)
	}
}

func (a *app) sendImport(ctx context.Context, to *client.Client, file *os.File, media string, options url.Values) (*wire.ImportAnswer, error) {
	size := int64(0)
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	bar := a.progress()
	defer bar.end()
	sent := &countedReader{from: file, tell: func(done int64) { bar.show("sending", done, size, true) }}
	return to.ImportBlocks(ctx, sent, media, options)
}

// countedReader tells how much was read.
type countedReader struct {
	from io.Reader
	done int64
	tell func(done int64)
}

func (r *countedReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.done += int64(n)
	r.tell(r.done)
	return n, err
}

func (a *app) printImport(i *wire.ImportAnswer) error {
	p := a.printer()
	if p.Format != output.Table {
		return output.One(p, i, importColumns)
	}
	if i.DryRun {
		p.Sayf("This is a dry run: nothing was changed.")
	}
	if err := output.One(p, i, importColumns); err != nil {
		return err
	}
	for _, bad := range i.InvalidRows {
		p.Sayf("  line %d: %s", bad.Line, output.Escape(bad.Problem))
	}
	if i.Estimate != nil {
		p.Sayf("They would have refused %s", estimateSentence(i.Estimate))
	}
	if i.Confirm != "" {
		a.tellBroad(i.Broad, i.BroadCount)
		a.notef("The import needs --confirm-broad.")
	}
	return nil
}

var importColumns = []output.Column[*wire.ImportAnswer]{
	{Name: "rows", Head: "Rows", Cell: func(i *wire.ImportAnswer) output.Cell { return output.Number(i.Rows) }},
	{Name: "created", Head: "New", Cell: func(i *wire.ImportAnswer) output.Cell { return output.Number(i.Created) }},
	{Name: "extended", Head: "Extended", Cell: func(i *wire.ImportAnswer) output.Cell { return output.Number(i.Extended) }},
	{Name: "replaced", Head: "Replaced", Cell: func(i *wire.ImportAnswer) output.Cell { return output.Number(i.Replaced) }},
	{Name: "unchanged", Head: "Unchanged", Cell: func(i *wire.ImportAnswer) output.Cell { return output.Number(i.Unchanged) }},
	{Name: "invalid", Head: "Invalid", Cell: func(i *wire.ImportAnswer) output.Cell { return output.Number(i.Invalid) }},
	{Name: "exempt", Head: "Exempt", Cell: func(i *wire.ImportAnswer) output.Cell { return output.Number(i.Exempt) }},
	{Name: "dry_run", Cell: func(i *wire.ImportAnswer) output.Cell { return output.YesNo(i.DryRun) }},
}
