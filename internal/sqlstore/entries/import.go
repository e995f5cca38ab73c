package entries

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

// importBatch is the number of rows that one statement of an import writes. The import reports
// its progress after each.
const importBatch = 1000

// Import implements admin.EntryStore.
func (s *Store) Import(ctx context.Context, by audit.Actor, all iter.Seq2[blocks.Entry, error], on blocks.Conflict, progress func(done int)) (blocks.ImportResult, error) {
	if on == "" {
		on = blocks.Keep
	}
	if on != blocks.Keep && on != blocks.Extend && on != blocks.Replace {
		return blocks.ImportResult{}, fault.Field("on_conflict", "must be keep, extend or replace")
	}
	rows, err := db.WriteTempRows(ctx, importRows(all, s.db.LocalNow()))
	if err != nil {
		return blocks.ImportResult{}, err
	}
	defer rows.Close()
	var result blocks.ImportResult
	err = s.db.Change(ctx, by, func(t *db.Tx) error {
		run := newImportRun(t, on, progress)
		if err := run.all(rows.All()); err != nil {
			return err
		}
		result = run.result
		if result.Created+result.Extended+result.Replaced == 0 {
			return db.ErrUnchanged
		}
		result.RecordID, err = recordImport(t, run.kind, result)
		return err
	})
	if err != nil {
		return blocks.ImportResult{}, err
	}
	return result, nil
}

func recordImport(t *db.Tx, kind blocks.Kind, r blocks.ImportResult) (recordID int64, err error) {
	summary := fmt.Sprintf("Imported %ss: %s created, %s extended, %s replaced, %s unchanged.", kind,
		phrase.Number(r.Created), phrase.Number(r.Extended), phrase.Number(r.Replaced), phrase.Number(r.Unchanged))
	err = t.Record(string(kind)+".import", string(kind), strconv.FormatInt(t.Revision, 10), summary, nil,
		importCounts{r.Created, r.Extended, r.Replaced, r.Unchanged})
	return db.NewestRecord(t), err
}

// importRun is one attempt at an import inside its transaction.
type importRun struct {
	*db.Tx
	on       blocks.Conflict
	progress func(done int)

	kind   blocks.Kind // of all rows, "" before the first
	result blocks.ImportResult
	done   int
	batch  []*blocks.Entry
	places map[string]int // index in batch by scope and pattern
}

func newImportRun(t *db.Tx, on blocks.Conflict, progress func(done int)) *importRun {
	return &importRun{Tx: t, on: on, progress: progress, places: make(map[string]int, importBatch)}
}

func (r *importRun) all(rows iter.Seq2[*importRow, error]) error {
	for row, err := range rows {
		if err != nil {
			return err
		}
		if err := r.take(row); err != nil {
			return err
		}
		if len(r.batch) == importBatch {
			if err := r.flush(); err != nil {
				return err
			}
		}
	}
	return r.flush()
}

// take adds a row to the batch. It resolves a conflict with a pattern that is already in the
// batch, since one statement cannot change a row twice.
func (r *importRun) take(row *importRow) error {
	r.done++
	e, err := row.Entry()
	if err != nil {
		return err
	}
	e.From = row.From
	if r.kind == "" {
		r.kind = e.Kind
	}
	if e.Kind != r.kind {
		return rowFault(r.done, fault.Field("kind", "must be that of the other rows, %s", r.kind))
	}
	if e.ID, err = db.NewID(); err != nil {
		return err
	}
	e.Created, e.Revision = blocks.MomentOf(r.Now), r.Revision
	if e.Author == "" {
		e.Author = r.By.Name
	}
	if err := checkEntry(e, r.Now); err != nil {
		return rowFault(r.done, err)
	}
	place := row.Scope + " " + row.Pattern
	at, twice := r.places[place]
	switch {
	case !twice:
		r.places[place] = len(r.batch)
		r.batch = append(r.batch, e)
	case r.on == blocks.Replace:
		r.batch[at] = e
		r.result.Replaced++
	case r.on == blocks.Extend && blocks.IsLater(e.Expires, r.batch[at].Expires):
		r.batch[at].Expires = e.Expires
		r.result.Extended++
	default:
		r.result.Unchanged++
	}
	return nil
}

// rowFault adds the number of the row to an error of an import.
func rowFault(number int, err error) error {
	var e *fault.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("row %d: %w", number, err)
	}
	at := *e
	at.Field = "rows[" + strconv.Itoa(number-1) + "]." + e.Field
	return &at
}

func (r *importRun) flush() error {
	if len(r.batch) == 0 {
		return nil
	}
	patterns := make([][]any, len(r.batch))
	for n, e := range r.batch {
		patterns[n] = []any{e.Pattern.String()}
	}
	if err := r.ExecOf(bulkOf[r.kind].giveUp, patterns, db.ToMS(r.Now)); err != nil {
		return err
	}
	if r.on == blocks.Replace && r.batch[0].From == nil {
		if err := r.replace(); err != nil {
			return err
		}
	}
	if err := r.insert(); err != nil {
		return err
	}
	r.batch = r.batch[:0]
	clear(r.places)
	if r.progress != nil {
		r.progress(r.done)
	}
	return nil
}

// replace ends the entries that the batch replaces.
func (r *importRun) replace() error {
	asked := make([][]any, len(r.batch))
	for n, e := range r.batch {
		asked[n] = []any{e.Pattern.String(), e.Scope}
	}
	text, err := db.BulkJSON(asked)
	if err != nil {
		return err
	}
	n, err := r.Exec(bulkOf[r.kind].end, text, db.ToMS(r.Now), r.By.Name, r.Revision)
	r.result.Replaced += int(n)
	r.result.Created -= int(n)
	return err
}

// insert writes the batch. The returned ids distinguish new rows from those that were already
// active.
func (r *importRun) insert() error {
	rows := make([][]any, len(r.batch))
	made := make(map[string]bool, len(r.batch))
	for n, e := range r.batch {
		rows[n] = newRow(e)
		made[e.ID] = true
	}
	touched, err := db.EachOf(r.Tx, db.ScanText, bulkOf[r.kind].insert, rows)
	if err != nil {
		return err
	}
	for _, id := range touched {
		delete(made, id)
	}
	r.result.Created += len(touched)
	return r.join(made)
}

// join makes the rows of the batch whose ids are left, whose patterns have an active entry, shares
// of that entry. Without a named source, only an import that extends does.
func (r *importRun) join(left map[string]bool) error {
	var asked [][]any
	rows := map[string]*blocks.Entry{} // by scope and pattern
	for _, e := range r.batch {
		switch {
		case !left[e.ID]:
		case e.From == nil && r.on != blocks.Extend:
			r.result.Unchanged++
		default:
			asked = append(asked, []any{e.Pattern.String(), e.Scope})
			rows[e.Scope+" "+e.Pattern.String()] = e
		}
	}
	active, err := db.EachOf(r.Tx, new(EntryScanner).Scan, bulkOf[r.kind].holders, asked)
	if err != nil {
		return err
	}
	ids := make([]string, len(active))
	for i, e := range active {
		ids[i] = e.ID
	}
	t := In(r.Tx)
	shares, err := t.shares(ids...)
	if err != nil {
		return err
	}
	var changes []held
	for _, before := range active {
		e, was := rows[before.Scope+" "+before.Pattern.String()], shares[before.ID]
		all, outcome := blocks.Join(was, e.ShareOf(), r.on)
		if before.Action != e.Action { // the sources of an entry share its action
			outcome = blocks.Unchanged
		}
		if outcome != blocks.Unchanged {
			changes = append(changes, held{before, was, all})
		}
		switch outcome {
		case blocks.Unchanged:
			r.result.Unchanged++
		case blocks.Replaced:
			r.result.Replaced++
		default:
			r.result.Extended++
		}
	}
	return t.holdAll(changes)
}

// importRow is a row of an import in the temporary file.
type importRow struct {
	blocks.Row
	From *blocks.Holder
}

// importRows checks the entries of an import at now before anything is written: otherwise an
// invalid row at the end would roll back everything.
func importRows(all iter.Seq2[blocks.Entry, error], now time.Time) iter.Seq2[importRow, error] {
	return func(yield func(importRow, error) bool) {
		number := 0
		for b, err := range all {
			number++
			if err == nil {
				b.Kind, b.Expires = cmp.Or(b.Kind, blocks.Block), db.FromMS(db.ToMS(b.Expires))
				if wrong := checkEntry(&b, now); wrong != nil {
					err = rowFault(number, wrong)
				}
			}
			if err != nil {
				yield(importRow{}, err)
				return
			}
			if b.Source == "" {
				b.Source = blocks.Imported
			}
			if !yield(importRow{b.Row(), b.From}, nil) {
				return
			}
		}
	}
}
