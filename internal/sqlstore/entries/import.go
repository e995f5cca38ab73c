package entries

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strconv"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

// importBatch is the number of rows that one statement of an import writes, after which it
// reports its progress.
const importBatch = 1000

// Import implements blocks.Store. The rows are written to a temporary
// file first: their reader may be slow, and no other change can be made while
// the transaction is open.
func (s *Store) Import(ctx context.Context, by audit.Actor, all iter.Seq2[blocks.Entry, error], on blocks.Conflict, progress func(done int)) (blocks.ImportResult, error) {
	if on == "" {
		on = blocks.Keep
	}
	if on != blocks.Keep && on != blocks.Extend && on != blocks.Replace {
		return blocks.ImportResult{}, fault.Field("on_conflict", "must be keep, extend or replace")
	}
	file, err := writeImportFile(ctx, all, s.db.LocalNow())
	if err != nil {
		return blocks.ImportResult{}, err
	}
	defer file.remove()
	var result blocks.ImportResult
	err = s.db.Change(ctx, by, func(t *db.Tx) error {
		rows, err := file.rows()
		if err != nil {
			return err
		}
		run := newImportRun(t, on, progress)
		if err := run.all(rows); err != nil {
			return err
		}
		result = run.result
		if result.Created+result.Extended+result.Replaced == 0 {
			return db.ErrUnchanged
		}
		result.RecordID, err = recordImport(t, result)
		return err
	})
	if err != nil {
		return blocks.ImportResult{}, err
	}
	return result, nil
}

func recordImport(t *db.Tx, r blocks.ImportResult) (recordID int64, err error) {
	summary := fmt.Sprintf("Imported blocks: %d created, %d extended, %d replaced, %d unchanged.", r.Created, r.Extended, r.Replaced, r.Unchanged)
	err = t.Record("block.import", "block", strconv.FormatInt(t.Revision, 10), summary, nil,
		importCounts{r.Created, r.Extended, r.Replaced, r.Unchanged})
	return db.NewestRecord(t), err
}

// importRun is one attempt at an import inside its transaction.
type importRun struct {
	*db.Tx
	on       blocks.Conflict
	progress func(done int)

	result blocks.ImportResult
	done   int
	batch  []*blocks.Entry
	places map[string]int // index in batch by scope and pattern
}

func newImportRun(t *db.Tx, on blocks.Conflict, progress func(done int)) *importRun {
	return &importRun{Tx: t, on: on, progress: progress, places: make(map[string]int, importBatch)}
}

func (r *importRun) all(rows iter.Seq2[*importRow, error]) error {
	if _, err := r.Exec(giveUpAll, db.ToMS(r.Now)); err != nil {
		return err
	}
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

// take puts a row into the batch. A pattern that is in it already is settled
// here: one statement cannot touch one row twice.
func (r *importRun) take(row *importRow) error {
	r.done++
	e, err := row.entry()
	if err != nil {
		return err
	}
	if e.ID, err = db.NewID(); err != nil {
		return err
	}
	e.Created, e.Revision = r.Now, r.Revision
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
	case r.on == blocks.Extend && db.ExpiryToMS(e.Expires) > db.ExpiryToMS(r.batch[at].Expires):
		r.batch[at].Expires = e.Expires
		r.result.Extended++
	default:
		r.result.Unchanged++
	}
	return nil
}

// rowFault says which row of an import was wrong.
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
	if r.on == blocks.Replace {
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

// replace ends the blocks that the batch replaces.
func (r *importRun) replace() error {
	asked := make([][]any, len(r.batch))
	for n, e := range r.batch {
		asked[n] = []any{e.Pattern.String(), e.Scope}
	}
	text, err := db.BulkJSON(asked)
	if err != nil {
		return err
	}
	n, err := r.Exec(endBlocks, text, db.ToMS(r.Now), r.By.Name, r.Revision)
	r.result.Replaced += int(n)
	r.result.Created -= int(n)
	return err
}

// insert writes the batch and distinguishes new rows from those that were active
// by the ids that come back.
func (r *importRun) insert() error {
	rows := make([][]any, len(r.batch))
	made := make(map[string]bool, len(r.batch))
	for n, e := range r.batch {
		rows[n] = blockRow(e, e.Pattern.String())
		made[e.ID] = true
	}
	statement := insertBlocks
	if r.on == blocks.Extend {
		statement = extendBlocks
	}
	touched, err := db.EachOf(r.Tx, db.ScanText, statement, rows, db.ToMS(r.Now), r.Revision)
	if err != nil {
		return err
	}
	for _, id := range touched {
		if made[id] {
			r.result.Created++
		} else {
			r.result.Extended++
		}
	}
	r.result.Unchanged += len(r.batch) - len(touched)
	return nil
}

// importRow is a row of an import in the temporary file.
type importRow struct {
	Pattern, Scope string
	Reason, Author string
	Source         blocks.Source
	PolicyID       int64
	Level          int
	ExpiresMS      int64 // as toMS
}

func (r *importRow) entry() (*blocks.Entry, error) {
	// It was a pattern when it was written, so it reads alike now.
	p, err := keys.Parser{}.Pattern(r.Pattern)
	if err != nil {
		return nil, err
	}
	return &blocks.Entry{
		Kind: blocks.Block, Pattern: p, Scope: r.Scope, Reason: r.Reason, Author: r.Author, Source: r.Source,
		PolicyID: r.PolicyID, Level: r.Level, Expires: db.FromMS(r.ExpiresMS),
	}, nil
}

// importFile is the temporary file of an import.
type importFile struct{ file *os.File }

// writeImportFile writes the rows of an import, which it checks, to a temporary file.
func writeImportFile(ctx context.Context, all iter.Seq2[blocks.Entry, error], now time.Time) (*importFile, error) {
	file, err := os.CreateTemp("", "stint-import-*")
	if err != nil {
		return nil, fmt.Errorf("make room for the import: %w", err)
	}
	made := &importFile{file}
	if err := made.fill(ctx, all, now); err != nil {
		made.remove()
		return nil, err
	}
	return made, nil
}

func (s *importFile) fill(ctx context.Context, all iter.Seq2[blocks.Entry, error], now time.Time) error {
	buffer := bufio.NewWriterSize(s.file, 1<<20)
	rows := gob.NewEncoder(buffer)
	number := 0
	for b, err := range all {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		number++
		// Before anything is written: a bad row at the end would undo all.
		b.Kind, b.Expires = blocks.Block, db.FromMS(db.ToMS(b.Expires))
		if err := checkEntry(&b, now); err != nil {
			return rowFault(number, err)
		}
		if b.Source == "" {
			b.Source = blocks.Imported
		}
		err = rows.Encode(importRow{b.Pattern.String(), b.Scope, b.Reason, b.Author, b.Source, b.PolicyID, b.Level, db.ToMS(b.Expires)})
		if err != nil {
			return fmt.Errorf("write the import's temporary file: %w", err)
		}
	}
	return buffer.Flush()
}

// rows reads the file from its beginning.
func (s *importFile) rows() (iter.Seq2[*importRow, error], error) {
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	rows := gob.NewDecoder(bufio.NewReaderSize(s.file, 1<<20))
	return func(yield func(*importRow, error) bool) {
		for {
			row := &importRow{}
			err := rows.Decode(row)
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}, nil
}

func (s *importFile) remove() {
	_ = s.file.Close()
	_ = os.Remove(s.file.Name()) // a leftover in the temporary folder does no harm
}
