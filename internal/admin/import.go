package admin

import (
	"cmp"
	"context"
	"io"
	"iter"
	"slices"
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
	BlocksAuto  = blocklist.Auto
)

// DetectFormat returns a file's format by its name or, if the name is inconclusive, by its
// first bytes.
func DetectFormat(name string, head []byte) FileFormat { return blocklist.Detect(name, head) }

// Export writes the entries that a filter selects in the format of Import, with the names of their sources. Importing them does
// not make ended or expired entries active.
func (e *Entries) Export(ctx context.Context, w io.Writer, f blocks.Filter, format FileFormat) error {
	out := blocklist.NewWriter(w, format)
	f = e.at(f)
	write := func(some []*blocks.Entry) error {
		ids := make([]string, len(some))
		for i, b := range some {
			ids[i] = b.ID
		}
		shares, err := e.Store.Shares(ctx, ids...)
		if err != nil {
			return err
		}
		for _, b := range some {
			if b.End == nil && b.ExpiredAt(f.At) {
				ended := *b
				ended.End = blocks.EndingOf(b.Expires, "")
				b = &ended
			}
			if err := out.Write(b, blocks.NamesOf(shares[b.ID])); err != nil {
				return err
			}
		}
		return nil
	}
	var some []*blocks.Entry
	for b, err := range e.Each(ctx, f) {
		if err != nil {
			return err
		}
		if some = append(some, b); len(some) == exportBatch {
			if err := write(some); err != nil {
				return err
			}
			some = some[:0]
		}
	}
	if err := write(some); err != nil {
		return err
	}
	return out.Close()
}

// exportBatch is how many entries of an export have their sources read at once.
const exportBatch = 1000

// ImportOptions configure an import of blocks or exemptions. The zero value imports a CSV of
// blocks, all or nothing, and keeps active ones unchanged.
type ImportOptions struct {
	Kind   blocks.Kind // "" means blocks
	Format FileFormat
	// Source is the name of the source of the rows, such as that of a list; "" for the caller.
	Source string
	// Reason and Expiry apply to rows without their own.
	Reason     string
	Expiry     blocks.Expiry
	OnConflict blocks.Conflict // Keep (also for ""), Extend or Replace
	// Column is where the patterns are in a table of another form, see blocklist.Defaults.
	Column string
	// Literal says that the patterns of all rows are meant as written.
	Literal bool
	// SkipBad skips invalid rows instead of importing nothing.
	SkipBad bool
	// DryRun changes nothing and reports what would be done.
	DryRun bool
	// Confirm is the Digest of the Confirmation that the operator gives, "" for none.
	Confirm string
}

// Check returns an error if the options are invalid at now.
func (o *ImportOptions) Check(now time.Time) error {
	if err := fault.CheckLine("reason", o.Reason, blocks.MaxReason); err != nil {
		return err
	}
	if o.Source != "" {
		if err := blocks.CheckHolderName(o.Source); err != nil {
			return err
		}
	}
	if _, err := o.Expiry.At(now); err != nil {
		return err
	}
	return checkConflict(o.OnConflict, blocks.Keep, blocks.Extend, blocks.Replace)
}

// ImportResult is the result of an import, or the predicted result in a dry run.
type ImportResult struct {
	DryRun bool
	ImportRows
	blocks.ImportResult
	// Exempt counts the valid rows of blocks that an exemption covers.
	Exempt int
	// Ended counts the valid rows that are skipped because they are marked as ended, as in an
	// export.
	Ended int
	// Confirmation is what must be confirmed for the file of a dry run, nil if nothing.
	Confirmation *Confirmation
	// Traffic is what the new blocks of a dry run would have refused in the last day in
	// addition to existing blocks and exemptions; nil if it is unknown, and for exemptions.
	Traffic *TrafficEstimate
}

// Import reads a file of blocks or exemptions and imports it. Mistakes are *fault.Error: Malformed if the
// rest of the file cannot be read; Invalid for invalid rows without SkipBad, with details from
// ImportResult; TooLarge beyond a million rows; NeedConfirm, as a *NeedsConfirmation, for broad
// rows that ImportOptions.Confirm does not confirm.
func (e *Entries) Import(ctx context.Context, c Caller, file io.Reader, o ImportOptions) (*ImportResult, error) {
	o.Kind = cmp.Or(o.Kind, blocks.Block)
	run := &importRun{Entries: e, options: o, holder: cmp.Or(o.Source, c.Actor.Name), now: e.Now(), exempt: newCover(), judge: newJudge(e, o.Kind, c.Address), result: &ImportResult{DryRun: o.DryRun}}
	if err := o.Check(run.now); err != nil {
		return nil, err
	}
	defaults := blocklist.Defaults{Kind: o.Kind, Reading: e.reading(ctx, o.Literal), Now: run.now, Reason: o.Reason, Column: o.Column}
	var err error
	if defaults.Expires, err = o.Expiry.At(run.now); err != nil {
		return nil, err
	}
	if o.Kind == blocks.Block {
		for x := range e.View.Blocks().All(blocks.Exemption, run.now) {
			run.exempt.add(x.Pattern)
		}
	}
	if o.Format == "" {
		o.Format = blocklist.CSV
	}
	rows := blocklist.Read(file, o.Format, defaults)
	if o.DryRun {
		return run.dryRun(ctx, rows)
	}
	run.result.ImportResult, err = e.Store.Import(ctx, c.Actor, run.entries(ctx, rows), o.OnConflict, nil)
	if err != nil {
		return nil, err
	}
	return run.result, nil
}

type importRun struct {
	*Entries
	options ImportOptions
	holder  string // the name of the source of the rows
	held    []heldRow
	now     time.Time
	exempt  *cover
	judge   *judge
	result  *ImportResult
}

// entries yields the valid rows. If a confirmation is missing, it ends with an error before the
// store changes anything.
func (r *importRun) entries(ctx context.Context, rows iter.Seq2[blocklist.Row, error]) iter.Seq2[blocks.Entry, error] {
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
			entry := row.Entry()
			if r.options.Source != "" {
				entry.From = &blocks.Holder{Name: r.options.Source}
			}
			if !yield(entry, nil) {
				return
			}
		}
		if err := r.checkConfirmed(ctx); err != nil {
			yield(blocks.Entry{}, err)
		}
	}
}

// checkConfirmed returns nil if nothing needs a confirmation or it was given.
func (r *importRun) checkConfirmed(ctx context.Context) error {
	c, err := r.judge.confirmation(ctx)
	if err != nil || c == nil || c.Digest == r.options.Confirm {
		return err
	}
	return needsConfirmation(c)
}

// look adds a valid row to the judge, and counts it if an exemption covers it.
func (r *importRun) look(row blocklist.Row) {
	r.judge.add(row)
	if r.exempt.covers(row.Pattern) {
		r.result.Exempt++
	}
}

// dryRun predicts from this node's copy what the store would do.
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
		// It refuses only checks with the scope, so the traffic estimate ignores it.
		if scoped[row.Scope] == nil {
			scoped[row.Scope] = keys.NewIndex[time.Time]()
		}
		r.predictRow(row, active.Scopes()[row.Scope], scoped[row.Scope])
	}
	if err := r.predictHeld(ctx); err != nil {
		return nil, err
	}
	var err error
	if r.result.Confirmation, err = r.judge.confirmation(ctx); err != nil {
		return nil, err
	}
	if r.Traffic != nil && r.options.Kind == blocks.Block && r.result.Created > 0 {
		r.result.Traffic, err = r.Traffic.EstimateTraffic(ctx, r.now.Add(-day), r.now, func(k keys.Key) bool {
			_, _, found := index.Best(k)
			now := active.Match(k, r.now)
			return found && now.Block == nil && now.Exemption == nil
		})
	}
	return r.result, err
}

// predictRow counts what the store would do with a row, and adds it to the index of earlier
// rows of the same scope. active are the active entries of the scope, nil for none.
func (r *importRun) predictRow(row blocklist.Row, active *blocks.Set, index *keys.Index[time.Time]) {
	expires, exists := index.Get(row.Pattern)
	if !exists && active != nil {
		if b := active.Of(row.Kind, row.Pattern, r.now); b != nil {
			if r.options.Source != "" || r.options.OnConflict == blocks.Extend {
				r.held = append(r.held, heldRow{b.ID, row.Expires})
				index.Set(row.Pattern, row.Expires)
				return
			}
			exists, expires = true, b.Expires
		}
	}
	r.predict(exists, expires, row.Expires)
	if !exists || r.options.OnConflict == blocks.Replace || r.options.OnConflict == blocks.Extend && blocks.IsLater(row.Expires, expires) {
		expires = row.Expires
	}
	index.Set(row.Pattern, expires)
}

// heldRow is a row whose pattern has an active entry, of which the source may get a share.
type heldRow struct {
	id      string
	expires time.Time
}

// predictHeld counts what the store would do with the held rows.
func (r *importRun) predictHeld(ctx context.Context) error {
	for rows := range slices.Chunk(r.held, 1000) {
		ids := make([]string, len(rows))
		for i, row := range rows {
			ids[i] = row.id
		}
		shares, err := r.Store.Shares(ctx, ids...)
		if err != nil {
			return err
		}
		for _, row := range rows {
			_, did := blocks.Join(shares[row.id], blocks.Share{Holder: blocks.Holder{Name: r.holder}, Expires: row.expires}, r.options.OnConflict)
			switch did {
			case blocks.Unchanged:
				r.result.Unchanged++
			case blocks.Replaced:
				r.result.Replaced++
			default:
				r.result.Extended++
			}
		}
	}
	return nil
}

// predict counts what the store would do with a row. exists means that its pattern has an
// active entry of the kind until expires.
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
