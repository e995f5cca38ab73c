package admin

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
)

// maxRows is the most that one import takes.
const maxRows = 1_000_000

// maxShown is how many invalid rows, and how many findings, are named one by one.
const maxShown = 20

// BlockFormat is how a file holds blocks.
type BlockFormat = blocklist.Format

// The formats.
const (
	BlocksCSV   = blocklist.CSV
	BlocksJSON  = blocklist.JSON
	BlocksPlain = blocklist.Plain
)

// DetectFormat returns a file's format by its name or, where the name does not say, by
// its first bytes.
func DetectFormat(name string, head []byte) BlockFormat { return blocklist.Detect(name, head) }

// Export writes the entries that a filter selects as Import reads them.
func (e *Entries) Export(ctx context.Context, w io.Writer, f blocks.Filter, format BlockFormat) error {
	out := blocklist.NewWriter(w, format)
	for b, err := range e.Each(ctx, f) {
		if err != nil {
			return err
		}
		if err := out.Write(b); err != nil {
			return err
		}
	}
	return out.Close()
}

// ImportOptions say how to import a file of blocks. The zero value imports a CSV,
// all or nothing, and keeps the active blocks as they are.
type ImportOptions struct {
	Format BlockFormat
	// Reason and Expiry are for the rows that name none.
	Reason     string
	Expiry     blocks.Expiry
	OnConflict blocks.Conflict // Keep (where ""), Extend or Replace
	// SkipBad leaves invalid rows out instead of importing nothing.
	SkipBad bool
	// DryRun changes nothing and says what would be done.
	DryRun bool
	// Confirm is the Digest of the Confirmation that is given, "" for none.
	Confirm string
}

// Check returns what is wrong with the options at now, nil for nothing.
func (o *ImportOptions) Check(now time.Time) error {
	if err := fault.CheckLine("reason", o.Reason, blocks.MaxReason); err != nil {
		return err
	}
	if _, err := o.Expiry.At(now); err != nil {
		return err
	}
	return checkConflict(o.OnConflict, blocks.Keep, blocks.Extend, blocks.Replace)
}

// ImportResult is what an import did, or a dry run would do.
type ImportResult struct {
	DryRun bool
	Rows   int // valid and invalid
	blocks.ImportResult
	Invalid int
	Bad     []blocklist.RowError // the first of the invalid rows
	// Exempt counts the valid rows that an exemption covers.
	Exempt int
	// Confirmation is what of a dry run's file must be confirmed, nil for
	// nothing.
	Confirmation *Confirmation
	// Traffic is what a dry run's new blocks would have refused in the last
	// day; nil where that is not known.
	Traffic *TrafficEstimate
}

// Import reads a file of blocks and imports it. Mistakes are *fault.Error: Malformed
// for a file that cannot be read on; Invalid for invalid rows without SkipBad,
// with what ImportResult says of them in its details; TooLarge beyond a million
// rows; NeedConfirm, as a *NeedsConfirmation, for broad rows that
// ImportOptions.Confirm does not confirm.
func (e *Entries) Import(ctx context.Context, c Caller, file io.Reader, o ImportOptions) (*ImportResult, error) {
	run := &importRun{Entries: e, options: o, now: e.Now(), exempt: newCover(), judge: newJudge(e, c.Address), result: &ImportResult{DryRun: o.DryRun}}
	if err := o.Check(run.now); err != nil {
		return nil, err
	}
	defaults := blocklist.Defaults{Parser: e.View.Parser(), Now: run.now, Reason: o.Reason}
	var err error
	if defaults.Expires, err = o.Expiry.At(run.now); err != nil {
		return nil, err
	}
	for x := range e.View.Blocks().All(blocks.Exemption, run.now) {
		run.exempt.add(x.Pattern)
	}
	if o.Format == "" {
		o.Format = blocklist.CSV
	}
	rows := blocklist.Read(file, o.Format, defaults)
	if o.DryRun {
		return run.dryRun(ctx, rows)
	}
	run.result.ImportResult, err = e.Store.Import(ctx, c.Actor, run.blocks(ctx, rows), o.OnConflict, nil)
	if err != nil {
		return nil, err
	}
	return run.result, nil
}

type importRun struct {
	*Entries
	options ImportOptions
	now     time.Time
	exempt  *cover
	judge   *judge
	result  *ImportResult
}

// blocks yields the valid rows. The first invalid row without SkipBad ends them
// once the rest of the file has been read, so that all of them are named. What
// must be confirmed and is not ends them too, before the store changes anything.
func (r *importRun) blocks(ctx context.Context, rows iter.Seq2[blocklist.Row, error]) iter.Seq2[blocks.Entry, error] {
	return func(yield func(blocks.Entry, error) bool) {
		for row, err := range rows {
			isValid, err := r.count(row, err)
			if err != nil {
				yield(blocks.Entry{}, err)
				return
			}
			if isValid && (r.result.Invalid == 0 || r.options.SkipBad) && !yield(row.Block(), nil) {
				return
			}
		}
		err := r.invalidRows()
		if err == nil {
			err = r.checkConfirmed(ctx)
		}
		if err != nil {
			yield(blocks.Entry{}, err)
		}
	}
}

// checkConfirmed returns nil where nothing has to be confirmed or all of it is.
func (r *importRun) checkConfirmed(ctx context.Context) error {
	c, err := r.judge.confirmation(ctx)
	if err != nil || c == nil || c.Digest == r.options.Confirm {
		return err
	}
	return needsConfirmation(c)
}

// count counts a row and reports whether it is valid. Its error ends the import.
func (r *importRun) count(row blocklist.Row, err error) (isValid bool, _ error) {
	if err == nil {
		r.judge.add(row)
		if r.exempt.covers(row.Pattern) {
			r.result.Exempt++
		}
	}
	return r.countRow(err)
}

// countRow counts a row of any file, of which err is what is wrong, and reports whether it
// is valid. Its error ends the import.
func (r *importRun) countRow(err error) (isValid bool, _ error) {
	var bad *blocklist.RowError
	var file *blocklist.FileError
	switch {
	case errors.As(err, &bad):
		r.result.Invalid++
		if len(r.result.Bad) < maxShown {
			r.result.Bad = append(r.result.Bad, *bad)
		}
	case errors.As(err, &file):
		return false, fault.New(fault.Malformed, "The file cannot be read: %s.", file)
	case err != nil:
		return false, &fault.Error{Code: fault.Malformed, Message: "The file ended early or could not be read.", Err: err}
	}
	r.result.Rows++
	if r.result.Rows > maxRows {
		return false, fault.New(fault.TooLarge, "The file has more than %d rows; split it.", maxRows)
	}
	return err == nil, nil
}

// invalidRows is the error of invalid rows that end an import, nil where none do.
func (r *importRun) invalidRows() error {
	if r.result.Invalid == 0 || r.options.SkipBad {
		return nil
	}
	e := fault.New(fault.Invalid, "%d of the %d rows are invalid, the first in %s. Nothing was imported; correct them, or leave them out (skip_bad, --skip-bad on the command line).",
		r.result.Invalid, r.result.Rows, r.result.Bad[0].Error())
	rows := make([]InvalidRow, len(r.result.Bad))
	for n, bad := range r.result.Bad {
		rows[n] = InvalidRow(bad)
	}
	e.Detail = map[string]any{"rows": r.result.Rows, "invalid": r.result.Invalid, "invalid_rows": rows}
	return e
}

// InvalidRow is an invalid row in the details of an error.
type InvalidRow struct {
	Line    int    `json:"line"`
	Problem string `json:"problem"`
}

// dryRun does what the store would do, by this node's copy.
func (r *importRun) dryRun(ctx context.Context, rows iter.Seq2[blocklist.Row, error]) (*ImportResult, error) {
	active := r.View.Blocks()
	index := keys.NewIndex[time.Time]() // the expiry of each pattern of the file
	for row, err := range rows {
		isValid, err := r.count(row, err)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		if !isValid {
			continue
		}
		if row.Scope != "" { // it refuses no check that says no scope: the traffic estimates none
			scoped := active.Scopes()[row.Scope]
			var known *blocks.Entry
			if scoped != nil {
				known = scoped.Of(blocks.Block, row.Pattern, r.now)
			}
			if known != nil {
				r.predict(true, known.Expires, row.Expires)
			} else {
				r.predict(false, time.Time{}, row.Expires)
			}
			continue
		}
		expires, exists := index.Get(row.Pattern)
		if !exists {
			if b := active.Of(blocks.Block, row.Pattern, r.now); b != nil {
				exists, expires = true, b.Expires
			}
		}
		r.predict(exists, expires, row.Expires)
		if !exists || r.options.OnConflict == blocks.Replace || r.options.OnConflict == blocks.Extend && isLater(row.Expires, expires) {
			expires = row.Expires
		}
		index.Set(row.Pattern, expires)
	}
	var err error
	if r.result.Confirmation, err = r.judge.confirmation(ctx); err != nil {
		return nil, err
	}
	if r.Traffic != nil && r.result.Created > 0 {
		r.result.Traffic, err = r.Traffic.EstimateTraffic(ctx, r.now.Add(-day), r.now, func(k keys.Key) bool {
			_, _, found := index.Best(k)
			now := active.Match(k, r.now)
			return found && now.Block == nil && now.Exemption == nil
		})
	}
	return r.result, err
}

// predict counts what the store would do with a row, whose pattern may have a
// block that is active until expires.
func (r *importRun) predict(exists bool, expires, next time.Time) {
	switch {
	case !exists:
		r.result.Created++
	case r.options.OnConflict == blocks.Replace:
		r.result.Replaced++
	case r.options.OnConflict == blocks.Extend && isLater(next, expires):
		r.result.Extended++
	default:
		r.result.Unchanged++
	}
}
