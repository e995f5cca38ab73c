package db

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"

	"github.com/stint-dev/stint/internal/atomicfile"
	"github.com/stint-dev/stint/internal/fault"
)

// TempRows are rows in a temporary file: those of an import, which may arrive slowly, or of an
// export, which may be read slowly. No transaction needs to be open for that long. T is encoded
// with gob.
type TempRows[T any] struct{ file *os.File }

// WriteTempRows writes all rows. It stops at the first error of rows or of ctx.
func WriteTempRows[T any](ctx context.Context, rows iter.Seq2[T, error]) (*TempRows[T], error) {
	file, err := atomicfile.Unnamed()
	if err != nil {
		return nil, temporaryFileError(err)
	}
	if err := writeRows(ctx, file, rows); err != nil {
		file.Close()
		return nil, err
	}
	return &TempRows[T]{file}, nil
}

func writeRows[T any](ctx context.Context, file io.Writer, rows iter.Seq2[T, error]) error {
	buffer := bufio.NewWriterSize(file, 1<<20)
	to := gob.NewEncoder(buffer)
	for row, err := range rows {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if err := to.Encode(row); err != nil {
			return temporaryFileError(err)
		}
	}
	if err := buffer.Flush(); err != nil {
		return temporaryFileError(err)
	}
	return nil
}

// temporaryFileError says what an operator can do where a file cannot be made or written.
func temporaryFileError(err error) error {
	if !errors.As(err, new(*fs.PathError)) {
		return fmt.Errorf("write temporary rows: %w", err)
	}
	return &fault.Error{Code: fault.Unavailable, Message: "The node cannot write a temporary file, for which the folder in its variable TMPDIR, or /tmp, must have room.", Err: err}
}

// All iterates over the rows, each time from the first one. It stops after an error.
func (r *TempRows[T]) All() iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		if _, err := r.file.Seek(0, io.SeekStart); err != nil {
			yield(nil, err)
			return
		}
		rows := gob.NewDecoder(bufio.NewReaderSize(r.file, 1<<20))
		for {
			row := new(T)
			err := rows.Decode(row)
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// Close frees the space.
func (r *TempRows[T]) Close() error { return r.file.Close() }
