package blocklist

import (
	"context"
	"errors"
	"iter"
	"net/netip"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
)

// MaxRows is the most that one import takes.
const MaxRows = 1_000_000

// maxShown is how many bad rows are told one by one.
const maxShown = 20

// View is what blocks and exemptions stand at this moment.
type View interface {
	Blocks() *blocks.Set
}

// Importer imports blocks.
type Importer struct {
	Store blocks.Store
	View  View
	// Parser reads keys by the settings of now.
	Parser func() keys.Parser
	// Traffic estimates what a dry run would have refused; nil leaves it out.
	Traffic TrafficEstimator
	Now     func() time.Time
}

// ImportOptions say how to import. The zero value imports all or nothing and
// leaves what is blocked already as it is.
type ImportOptions struct {
	On blocks.Conflict
	// SkipBad leaves bad rows out instead of importing nothing.
	SkipBad bool
	// DryRun changes nothing and says what would be done.
	DryRun bool
	// Caller is the address that asks, invalid for none.
	Caller netip.Addr
	// Confirm is the Digest of what is confirmed, "" for nothing.
	Confirm string
}

// ImportReport says what an import did, or a dry run would do.
type ImportReport struct {
	DryRun bool
	Rows   int // good and bad
	blocks.ImportResult
	Invalid int
	Bad     []RowError // the first of them
	// Exempt counts the good rows that an exemption hides whole.
	Exempt int
	// Confirmation is what of a dry run's file must be confirmed, nil for
	// nothing.
	Confirmation *Confirmation
	// Traffic is what a dry run's new blocks would have refused in the last
	// day; nil where that is not known.
	Traffic *Traffic
}

// Import reads rows and imports them. Errors that an operator can mend are
// *fault.Error: Malformed for a file that cannot be read on; Invalid for bad
// rows without SkipBad, with what ImportReport says of them in its details;
// TooLarge beyond MaxRows; or a *NeedsConfirmation for broad rows that
// ImportOptions.Confirm does not confirm.
func (m *Importer) Import(ctx context.Context, by audit.Actor, rows iter.Seq2[Row, error], o ImportOptions) (*ImportReport, error) {
	run := &importRun{Importer: m, options: o, now: m.Now(), exempt: newCover(),
		judge: newJudge(&Surveyor{View: m.View, Parser: m.Parser, Traffic: m.Traffic, Now: m.Now}, o.Caller), report: &ImportReport{DryRun: o.DryRun}}
	for e := range m.View.Blocks().All(blocks.Exemption, run.now) {
		run.exempt.add(e.Pattern)
	}
	if o.DryRun {
		return run.rehearse(ctx, rows)
	}
	result, err := m.Store.Import(ctx, by, run.blocks(ctx, rows), o.On, nil)
	if err != nil {
		return nil, err
	}
	run.report.ImportResult = result
	return run.report, nil
}

type importRun struct {
	*Importer
	options ImportOptions
	now     time.Time
	exempt  *cover
	judge   *judge
	report  *ImportReport
}

// blocks yields the good rows. The first bad row without SkipBad ends them
// once the rest of the file has been read, so that all of them are told. What
// must be confirmed and is not ends them too, before the store changes anything.
func (r *importRun) blocks(ctx context.Context, rows iter.Seq2[Row, error]) iter.Seq2[blocks.Entry, error] {
	return func(yield func(blocks.Entry, error) bool) {
		for row, err := range rows {
			good, err := r.count(row, err)
			if err != nil {
				yield(blocks.Entry{Kind: blocks.Block}, err)
				return
			}
			if good && (r.report.Invalid == 0 || r.options.SkipBad) && !yield(row.Block(), nil) {
				return
			}
		}
		if err := r.refusal(); err != nil {
			yield(blocks.Entry{Kind: blocks.Block}, err)
			return
		}
		if err := r.confirmed(ctx); err != nil {
			yield(blocks.Entry{Kind: blocks.Block}, err)
		}
	}
}

// confirmed returns nil where nothing has to be confirmed or all of it is.
func (r *importRun) confirmed(ctx context.Context) error {
	c, err := r.judge.confirmation(ctx)
	if err != nil || c == nil || c.Digest == r.options.Confirm {
		return err
	}
	return needsConfirmation(c)
}

// count counts a row and reports whether it is good. Its error ends the import.
func (r *importRun) count(row Row, err error) (good bool, _ error) {
	var bad *RowError
	var file *FileError
	switch {
	case errors.As(err, &bad):
		r.report.Invalid++
		if len(r.report.Bad) < maxShown {
			r.report.Bad = append(r.report.Bad, *bad)
		}
	case errors.As(err, &file):
		return false, fault.New(fault.Malformed, "The file cannot be read: %s.", file)
	case err != nil:
		return false, &fault.Error{Code: fault.Malformed, Message: "The file ended early or could not be read.", Err: err}
	default:
		r.judge.add(row)
		if r.exempt.covers(row.Pattern) {
			r.report.Exempt++
		}
	}
	r.report.Rows++
	if r.report.Rows > MaxRows {
		return false, fault.New(fault.TooLarge, "The file has more than %d rows; split it.", MaxRows)
	}
	return err == nil, nil
}

// refusal is why bad rows end an import, nil where they do not.
func (r *importRun) refusal() error {
	if r.report.Invalid == 0 || r.options.SkipBad {
		return nil
	}
	e := fault.New(fault.Invalid, "%d of the %d rows are bad, the first in %s. Nothing was imported; mend them, or have them left out (skip_bad, --skip-bad on the command line).",
		r.report.Invalid, r.report.Rows, r.report.Bad[0].Error())
	e.Detail = map[string]any{"rows": r.report.Rows, "invalid": r.report.Invalid, "invalid_rows": Told(r.report.Bad)}
	return e
}

// ToldRow is a bad row as answers show it.
type ToldRow struct {
	Line    int    `json:"line"`
	Problem string `json:"problem"`
}

// Told returns bad rows as answers show them.
func Told(bad []RowError) []ToldRow {
	told := make([]ToldRow, len(bad))
	for i, b := range bad {
		told[i] = ToldRow(b)
	}
	return told
}

// rehearse does what the store would do, by this node's copy.
func (r *importRun) rehearse(ctx context.Context, rows iter.Seq2[Row, error]) (*ImportReport, error) {
	standing := r.View.Blocks()
	index := keys.NewIndex[time.Time]() // the file's patterns and their ends
	for row, err := range rows {
		good, err := r.count(row, err)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		if !good {
			continue
		}
		end, twice := index.Get(row.Pattern)
		if !twice {
			if b := standing.Of(blocks.Block, row.Pattern, r.now); b != nil {
				twice, end = true, b.Expires
			}
		}
		r.foresee(twice, end, row.Expires)
		if !twice || r.options.On == blocks.Replace || r.options.On == blocks.Extend && later(row.Expires, end) {
			end = row.Expires
		}
		index.Set(row.Pattern, end)
	}
	var err error
	if r.report.Confirmation, err = r.judge.confirmation(ctx); err != nil {
		return nil, err
	}
	if r.Traffic != nil && r.report.Created > 0 {
		r.report.Traffic, err = r.Traffic.EstimateTraffic(ctx, r.now.Add(-day), r.now, func(k keys.Key) bool {
			_, _, found := index.Best(k)
			now := standing.Match(k, r.now)
			return found && now.Block == nil && now.Exemption == nil
		})
	}
	return r.report, err
}

// foresee counts what the store would do with a row whose pattern is or is not
// blocked until an end.
func (r *importRun) foresee(known bool, end, next time.Time) {
	switch {
	case !known:
		r.report.Created++
	case r.options.On == blocks.Replace:
		r.report.Replaced++
	case r.options.On == blocks.Extend && later(next, end):
		r.report.Extended++
	default:
		r.report.Unchanged++
	}
}

// later reports whether an end comes after another; the zero end never comes.
func later(a, b time.Time) bool { return !b.IsZero() && (a.IsZero() || a.After(b)) }
