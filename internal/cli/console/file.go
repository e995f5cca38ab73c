package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/stint-dev/stint/internal/atomicfile"
)

// StandardStream is the path that names standard input or standard output.
const StandardStream = "-"

// IsStdout reports whether a path names standard output: "-", or the file of standard output,
// such as /dev/stdout.
func (c *Console) IsStdout(path string) bool {
	if path == StandardStream {
		return true
	}
	named, err := os.Stat(path)
	if err != nil {
		return false
	}
	out, err := c.Stdout.Stat()
	return err == nil && os.SameFile(named, out)
}

// WriteFile writes what write produces to a file with these permissions. A regular file is
// created or replaced only when it is complete; symbolic links are followed. Standard output
// (see IsStdout) and files that are not regular, such as pipes and devices, are written
// directly.
func (c *Console) WriteFile(ctx context.Context, path string, perm fs.FileMode, write func(io.Writer) error) error {
	if c.IsStdout(path) {
		return write(c.Stdout)
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return Usagef("%s is a directory", path)
	case err == nil && !info.Mode().IsRegular():
		return writeThrough(ctx, path, info.Mode(), write)
	}
	target, err := linkTarget(path)
	if err != nil {
		return err
	}
	return atomicfile.Write(target, perm, func(file *os.File) error { return write(file) })
}

// writeThrough writes to a file that is not regular.
func writeThrough(ctx context.Context, path string, mode fs.FileMode, write func(io.Writer) error) error {
	file, err := openForWriting(ctx, path, mode)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

// openForWriting opens a file that is not regular. Opening a named pipe waits for a reader,
// until ctx ends.
func openForWriting(ctx context.Context, path string, mode fs.FileMode) (*os.File, error) {
	if mode&fs.ModeNamedPipe == 0 {
		return os.OpenFile(path, os.O_WRONLY, 0)
	}
	for {
		file, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if !errors.Is(err, syscall.ENXIO) {
			return file, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// maxLinks is the maximum number of symbolic links that lead to a file, as in Linux.
const maxLinks = 40

// linkTarget returns the path of the file that symbolic links lead to, which need not exist.
// The path is not cleaned: a ".." in it may follow a link to a folder.
func linkTarget(path string) (string, error) {
	for range maxLinks {
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode()&fs.ModeSymlink == 0 {
			return path, nil
		}
		if err != nil {
			return "", err
		}
		to, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(to) {
			folder, _ := filepath.Split(path)
			to = folder + to
		}
		path = to
	}
	return "", fmt.Errorf("%s: %w", path, syscall.ELOOP)
}
