package cli

import (
	"context"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/stint-dev/stint/internal/api/v1"
	"github.com/stint-dev/stint/internal/cli/output"
)

// importFlags are the flags of 'block import'.
type importFlags struct {
	format, onConflict, reason string
	end                        endFlags
	skipBad, dryRun            bool
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
much of the last day's traffic they would have refused, by an estimate.`,
		Example: `admin block import scrapers.csv --dry-run
admin block import addresses.txt --reason "public list" --for 7d --skip-bad
admin block export | admin block import - --format csv --on-conflict extend`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			answer, err := a.importBlocks(c.Context(), args[0], &f)
			if err != nil {
				return err
			}
			return printImport(a.printer(), answer)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.format, "format", "", "csv, json or plain; by the file's ending where it is left out")
	flags.StringVar(&f.onConflict, "on-conflict", "", "where a pattern is blocked already: fail (leave it as it is), extend or replace")
	flags.StringVar(&f.reason, "reason", "", "why, for the rows without a reason")
	flags.BoolVar(&f.skipBad, "skip-bad", false, "leave bad rows out instead of importing nothing")
	flags.BoolVar(&f.dryRun, "dry-run", false, "say what would be done and change nothing")
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

func (a *app) importBlocks(ctx context.Context, path string, f *importFlags) (*v1.ImportAnswer, error) {
	media, err := f.media(path)
	if err != nil {
		return nil, err
	}
	to, err := a.client()
	if err != nil {
		return nil, err
	}
	file := a.sys.Stdin
	if path != "-" {
		if file, err = os.Open(path); err != nil {
			return nil, err
		}
		defer file.Close()
	}
	size := int64(0)
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	bar := a.progress()
	defer bar.end()
	sent := &countedReader{from: file, tell: func(done int64) { bar.show("sending", done, size, true) }}
	return to.ImportBlocks(ctx, sent, media, f.options())
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

func printImport(p *output.Printer, i *v1.ImportAnswer) error {
	if p.Format != output.Table {
		return output.One(p, i, importColumns)
	}
	if i.DryRun {
		p.Sayf("This is a dry run: nothing was changed.")
	}
	if err := output.One(p, i, importColumns); err != nil {
		return err
	}
	for _, bad := range i.Bad {
		p.Sayf("  line %d: %s", bad.Line, output.Escape(bad.Problem))
	}
	if i.Estimate != nil {
		p.Sayf("They would have refused %s", estimateSentence(i.Estimate))
	}
	return nil
}

var importColumns = []output.Column[*v1.ImportAnswer]{
	{Name: "rows", Head: "Rows", Cell: func(i *v1.ImportAnswer) output.Cell { return output.Number(i.Rows) }},
	{Name: "created", Head: "New", Cell: func(i *v1.ImportAnswer) output.Cell { return output.Number(i.Created) }},
	{Name: "extended", Head: "Extended", Cell: func(i *v1.ImportAnswer) output.Cell { return output.Number(i.Extended) }},
	{Name: "replaced", Head: "Replaced", Cell: func(i *v1.ImportAnswer) output.Cell { return output.Number(i.Replaced) }},
	{Name: "known", Head: "Known", Cell: func(i *v1.ImportAnswer) output.Cell { return output.Number(i.Known) }},
	{Name: "invalid", Head: "Invalid", Cell: func(i *v1.ImportAnswer) output.Cell { return output.Number(i.Invalid) }},
	{Name: "exempt", Head: "Exempt", Cell: func(i *v1.ImportAnswer) output.Cell { return output.Number(i.Exempt) }},
	{Name: "dry_run", Cell: func(i *v1.ImportAnswer) output.Cell { return output.YesNo(i.DryRun) }},
}
