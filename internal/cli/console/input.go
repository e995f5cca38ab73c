package console

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/stint-dev/stint/internal/atomicfile"
	"github.com/stint-dev/stint/internal/supervise"
)

// Input is a file that a command reads, or standard input. Reading it ends with context.Canceled
// when the command is interrupted, although nothing may come from a pipe or a terminal.
type Input struct {
	Name string // for messages
	// Size is the size of a regular file in bytes, 0 of anything else.
	Size int64

	con     *Console
	file    *os.File
	isFile  bool // a regular file
	isStdin bool
	buffer  []byte // of what is no regular file
}

// Open opens a file for reading, or standard input for "-". A folder is refused. The caller
// closes the file.
func (c *Console) Open(path string) (*Input, error) {
	in := &Input{Name: "standard input", con: c, file: c.Stdin, isStdin: path == StandardStream}
	if !in.isStdin {
		// Opening a named pipe waits for somebody who writes.
		file, err := await(c, func() (*os.File, error) { return os.Open(path) })
		if errors.Is(err, context.Canceled) {
			return nil, err
		}
		if err != nil {
			return nil, Usagef("%w", err)
		}
		in.Name, in.file = filepath.Base(path), file
	}
	info, err := in.file.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = Usagef("%s is a folder, not a file", in.Name)
	case info.Mode().IsRegular():
		in.isFile, in.Size = true, info.Size()
	}
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return in, nil
}

// Read implements io.Reader.
func (in *Input) Read(p []byte) (int, error) {
	if in.isFile {
		return in.file.Read(p)
	}
	if in.buffer == nil {
		in.buffer = make([]byte, 64<<10)
	}
	part := in.buffer[:min(len(p), len(in.buffer))] // p belongs to the caller again once Read has returned
	n, err := await(in.con, func() (int, error) { return in.file.Read(part) })
	return copy(p, part[:n]), err
}

// Keep copies standard input, and what is no regular file, to an unnamed temporary file, so that
// it can be read again after Rewind.
func (in *Input) Keep() error {
	if in.isFile && !in.isStdin {
		return nil
	}
	file, err := atomicfile.Unnamed()
	if err != nil {
		return err
	}
	if _, err = io.Copy(file, in); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err = errors.Join(err, in.Close()); err != nil {
		return errors.Join(err, file.Close())
	}
	in.file, in.isFile, in.isStdin = file, true, false
	return nil
}

// Rewind has the next Read begin at the start of the file, which must be a regular one.
func (in *Input) Rewind() error {
	_, err := in.file.Seek(0, io.SeekStart)
	return err
}

// Close closes the file, but not standard input.
func (in *Input) Close() error {
	if in.isStdin {
		return nil
	}
	return in.file.Close()
}

// await returns what read returns, or context.Canceled once the command is interrupted. read
// must then change nothing that others use, since it may go on.
func await[T any](c *Console, read func() (T, error)) (value T, err error) {
	if c.Interrupted == nil {
		return read()
	}
	select {
	case <-c.Interrupted:
		return value, context.Canceled
	default:
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		r.err = supervise.Call("input", func() (err error) {
			r.value, err = read()
			return err
		})
		done <- r
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-c.Interrupted:
		return value, context.Canceled
	}
}
