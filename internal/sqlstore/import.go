package sqlstore

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
)

// progressStep is after how many rows an import tells how far it is.
const progressStep = 1000

// shelfInserted is the number of columns that shelfInsert fills.
const shelfInserted = 12

// ImportBlocks implements blocks.Store. The rows are written to a temporary
// file first: their reader may be slow, and no other change can be made while
// the transaction is open.
func (s *Store) ImportBlocks(ctx context.Context, by audit.Actor, all iter.Seq2[blocks.Block, error], on blocks.Conflict, progress func(done int)) (blocks.ImportResult, error) {
	if on == "" {
		on = blocks.Fail
	}
	if on != blocks.Fail && on != blocks.Extend && on != blocks.Replace {
		return blocks.ImportResult{}, fault.Field("on_conflict", "must be fail, extend or replace")
	}
	spooled, err := s.spool(ctx, all)
	if err != nil {
		return blocks.ImportResult{}, err
	}
	defer spooled.remove()
	var result blocks.ImportResult
	err = s.change(ctx, by, func(t *tx) error {
		rows, err := spooled.rows()
		if err != nil {
			return err
		}
		run := newImportRun(t, blockShelf, on, progress)
		if err := run.all(rows); err != nil {
			return err
		}
		result = run.result
		if result.Created+result.Extended+result.Replaced == 0 {
			return errUnchanged
		}
		return t.recordImport(result)
	})
	if err != nil {
		return blocks.ImportResult{}, err
	}
	return result, nil
}

func (t *tx) recordImport(r blocks.ImportResult) error {
	summary := fmt.Sprintf("Imported blocks: %d created, %d extended, %d replaced, %d known.", r.Created, r.Extended, r.Replaced, r.Known)
	return t.record("block.import", "block", strconv.FormatInt(t.revision, 10), summary, nil,
		importCounts{r.Created, r.Extended, r.Replaced, r.Known})
}

// importRun is one attempt at an import inside its transaction.
type importRun struct {
	*tx
	shelf    *shelf
	on       blocks.Conflict
	progress func(done int)

	result blocks.ImportResult
	done   int
	told   int // of done, by progress
	size   int // of a full batch
	batch  []*item
	places map[string]int // where in batch a pattern stands
	full   *sql.Stmt      // inserts a full batch; nil until there is one
}

func newImportRun(t *tx, s *shelf, on blocks.Conflict, progress func(done int)) *importRun {
	size := t.store.place.dialect.importBatch
	return &importRun{tx: t, shelf: s, on: on, progress: progress, size: size, places: make(map[string]int, size)}
}

func (r *importRun) all(rows iter.Seq2[*spooledRow, error]) error {
	if _, err := r.exec(r.shelf.giveUpAll, toMS(r.now)); err != nil {
		return err
	}
	for row, err := range rows {
		if err != nil {
			return err
		}
		if err := r.take(row); err != nil {
			return err
		}
		if len(r.batch) == r.size {
			if err := r.flush(); err != nil {
				return err
			}
		}
	}
	if err := r.flush(); err != nil {
		return err
	}
	if r.progress != nil && r.told < r.done {
		r.progress(r.done)
	}
	return nil
}

// take puts a row into the batch. A pattern that stands there already is
// settled here: one statement cannot touch one row twice.
func (r *importRun) take(row *spooledRow) error {
	r.done++
	i, err := row.item()
	if err != nil {
		return err
	}
	if i.ID, err = newID(); err != nil {
		return err
	}
	i.Created, i.Revision = r.now, r.revision
	if i.Author == "" {
		i.Author = r.by.Name
	}
	if err := r.shelf.check(i, r.now); err != nil {
		return rowFault(r.done, err)
	}
	at, twice := r.places[row.Pattern]
	switch {
	case !twice:
		r.places[row.Pattern] = len(r.batch)
		r.batch = append(r.batch, i)
	case r.on == blocks.Replace:
		r.batch[at] = i
		r.result.Replaced++
	case r.on == blocks.Extend && expiryToMS(i.Expires) > expiryToMS(r.batch[at].Expires):
		r.batch[at].Expires = i.Expires
		r.result.Extended++
	default:
		r.result.Known++
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
		replaced, err := r.exec(r.shelf.importReplace+placeholders(4, len(r.batch)), r.replaceArgs()...)
		if err != nil {
			return err
		}
		r.result.Replaced += int(replaced)
		r.result.Created -= int(replaced)
	}
	if err := r.insert(); err != nil {
		return err
	}
	r.batch = r.batch[:0]
	clear(r.places)
	if r.progress != nil && r.done-r.told >= progressStep {
		r.told = r.done
		r.progress(r.done)
	}
	return nil
}

func (r *importRun) replaceArgs() []any {
	args := []any{toMS(r.now), r.by.Name, r.revision}
	for _, i := range r.batch {
		args = append(args, i.Pattern.String())
	}
	return args
}

// insert writes the batch and tells new rows from those that stood by the ids
// that come back.
func (r *importRun) insert() error {
	args := make([]any, 0, len(r.batch)*shelfInserted)
	made := make(map[string]bool, len(r.batch))
	for _, i := range r.batch {
		args = append(args, i.columns()...)
		made[i.ID] = true
	}
	rows, err := r.inserting(args)
	if err != nil {
		return err
	}
	touched, err := collect(rows, scanText)
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
	r.result.Known += len(r.batch) - len(touched)
	return nil
}

// inserting runs the insertion of the batch. Full batches, nearly all, share
// one prepared statement.
func (r *importRun) inserting(args []any) (rows *sql.Rows, err error) {
	if len(r.batch) < r.size {
		return r.sql.QueryContext(r.ctx, r.insertion(), args...)
	}
	if r.full == nil {
		// It ends with the transaction.
		if r.full, err = r.sql.PrepareContext(r.ctx, r.insertion()); err != nil {
			return nil, err
		}
	}
	return r.full.QueryContext(r.ctx, args...)
}

// insertion returns the statement for a batch of this length.
func (r *importRun) insertion() string {
	var text strings.Builder
	text.WriteString(r.shelf.importHead)
	for n := range r.batch {
		if n > 0 {
			text.WriteByte(',')
		}
		text.WriteString(placeholders(n*shelfInserted+1, shelfInserted))
	}
	if r.on == blocks.Extend {
		text.WriteString(r.shelf.importExtend)
	} else {
		text.WriteString(r.shelf.importSkip)
	}
	return text.String()
}

func scanText(r row) (text string, err error) {
	err = r.Scan(&text)
	return text, err
}

// placeholders returns "($first,...)" for n arguments.
func placeholders(first, n int) string {
	text := make([]byte, 0, n*6+2)
	text = append(text, '(')
	for i := range n {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, '$')
		text = strconv.AppendInt(text, int64(first+i), 10)
	}
	return string(append(text, ')'))
}

// spooledRow is a row of an import in the temporary file.
type spooledRow struct {
	Pattern, Reason, Author string
	Source                  blocks.Source
	Policy                  int64
	Step                    int
	ExpiresMS               int64 // as toMS
}

func (r *spooledRow) item() (*item, error) {
	// It was a pattern when it was written, so it reads alike now.
	p, err := keys.Parser{}.Pattern(r.Pattern)
	if err != nil {
		return nil, err
	}
	return &item{
		Pattern: p, Reason: r.Reason, Author: r.Author, Source: string(r.Source),
		Policy: r.Policy, Step: r.Step, Expires: fromMS(r.ExpiresMS),
	}, nil
}

// spool is the temporary file of an import.
type spool struct{ file *os.File }

func (s *Store) spool(ctx context.Context, all iter.Seq2[blocks.Block, error]) (*spool, error) {
	file, err := os.CreateTemp("", "stint-import-*")
	if err != nil {
		return nil, fmt.Errorf("make room for the import: %w", err)
	}
	spooled := &spool{file}
	if err := spooled.fill(ctx, all, s.now()); err != nil {
		spooled.remove()
		return nil, err
	}
	return spooled, nil
}

func (s *spool) fill(ctx context.Context, all iter.Seq2[blocks.Block, error], now time.Time) error {
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
		i := itemOfBlock(b)
		if err := blockShelf.check(&i, now); err != nil {
			return rowFault(number, err)
		}
		if b.Source == "" {
			b.Source = blocks.Imported
		}
		err = rows.Encode(spooledRow{b.Pattern.String(), b.Reason, b.Author, b.Source, b.Policy, b.Level, toMS(b.Expires)})
		if err != nil {
			return fmt.Errorf("write the import's temporary file: %w", err)
		}
	}
	return buffer.Flush()
}

// rows reads the file from its beginning.
func (s *spool) rows() (iter.Seq2[*spooledRow, error], error) {
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	rows := gob.NewDecoder(bufio.NewReaderSize(s.file, 1<<20))
	return func(yield func(*spooledRow, error) bool) {
		for {
			row := &spooledRow{}
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

func (s *spool) remove() {
	_ = s.file.Close()
	_ = os.Remove(s.file.Name()) // a leftover in the temporary folder harms nobody
}
