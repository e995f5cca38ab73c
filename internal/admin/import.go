package admin

import (
	"context"
	"io"
	"iter"
	"time"

	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
)

// The formats of files of blocks.
const (
	BlocksCSV   = blocklist.CSV
	BlocksJSON  = blocklist.JSON
	BlocksPlain = blocklist.Plain
)

// DetectFormat returns a file's format by its name or, where the name does not say, by
// its first bytes.
func DetectFormat(name string, head []byte) FileFormat { return blocklist.Detect(name, head) }

// Export writes the entries that a filter selects as Import reads them. Import makes none
// active that has ended or expired.
func (e *Entries) Export(ctx context.Context, w io.Writer, f blocks.Filter, format FileFormat) error {
	out := blocklist.NewWriter(w, format)
	f = e.at(f)
	for b, err := range e.Each(ctx, f) {
		if err != nil {
			return err
		}
		if b.Ended.IsZero() && b.ExpiredAt(f.At) {
			ended := *b
			ended.Ended = b.Expires
			b = &ended
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
	Format FileFormat
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
	ImportRows
	blocks.ImportResult
	// Exempt counts the valid rows that an exemption covers.
	Exempt int
	// Ended counts the valid rows that are left out because they say that the block has
	// ended, as those of an export do.
	Ended int
	// Confirmation is what of a dry run's file must be confirmed, nil for
	// nothing.
	Confirmation *Confirmation
	// Traffic is what a dry run's new blocks would have refused in the last day, beside what is
	// blocked or exempt already; nil where that is not known.
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

// blocks yields the valid rows. What must be confirmed and is not ends them before the
// store changes anything.
func (r *importRun) blocks(ctx context.Context, rows iter.Seq2[blocklist.Row, error]) iter.Seq2[blocks.Entry, error] {
	return func(yield func(blocks.Entry, error) bool) {
		for row, err := range Valid(rows, &r.result.ImportRows, r.options.SkipBad) {
			if err != nil {
				yield(blocks.Entry{}, err)
				return
			}
			if row.HasEnded {
				r.result.Ended++
				continue
			}
			r.look(row)
			if !yield(row.Block(), nil) {
				return
			}
		}
		if err := r.checkConfirmed(ctx); err != nil {
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

// look has the cover and the judge look at a valid row.
func (r *importRun) look(row blocklist.Row) {
	r.judge.add(row)
	if r.exempt.covers(row.Pattern) {
		r.result.Exempt++
	}
}

// dryRun does what the store would do, by this node's copy.
func (r *importRun) dryRun(ctx context.Context, rows iter.Seq2[blocklist.Row, error]) (*ImportResult, error) {
	active := r.View.Blocks()
	index := keys.NewIndex[time.Time]() // the expiry of each pattern of the file
	scoped := map[string]*keys.Index[time.Time]{}
	for row, err := range Valid(rows, &r.result.ImportRows, true) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		if row.HasEnded {
			r.result.Ended++
			continue
		}
		r.look(row)
		if row.Scope == "" {
			r.predictRow(row, active, index)
			continue
		}
		// It refuses no check that says no scope: the traffic estimates none.
		if scoped[row.Scope] == nil {
			scoped[row.Scope] = keys.NewIndex[time.Time]()
		}
		r.predictRow(row, active.Scopes()[row.Scope], scoped[row.Scope])
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

// predictRow counts what the store would do with a row of a scope whose active entries are
// given, nil for none, and notes it in the index of the scope's rows so far.
func (r *importRun) predictRow(row blocklist.Row, active *blocks.Set, index *keys.Index[time.Time]) {
	expires, exists := index.Get(row.Pattern)
	if !exists && active != nil {
		if b := active.Of(blocks.Block, row.Pattern, r.now); b != nil {
			exists, expires = true, b.Expires
		}
	}
	r.predict(exists, expires, row.Expires)
	if !exists || r.options.OnConflict == blocks.Replace || r.options.OnConflict == blocks.Extend && blocks.IsLater(row.Expires, expires) {
		expires = row.Expires
	}
	index.Set(row.Pattern, expires)
}

// predict counts what the store would do with a row, whose pattern may have a
// block that is active until expires.
func (r *importRun) predict(exists bool, expires, next time.Time) {
	switch {
	case !exists:
		r.result.Created++
	case r.options.OnConflict == blocks.Replace:
		r.result.Replaced++
	case r.options.OnConflict == blocks.Extend && blocks.IsLater(next, expires):
		r.result.Extended++
	default:
		r.result.Unchanged++
	}
}
