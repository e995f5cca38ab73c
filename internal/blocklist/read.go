package blocklist

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"strings"
)

// maxRow bounds what is held in memory of a file at any time, in bytes: an open
// quote must not swallow the rest.
const maxRow = 1 << 20

// Read yields the rows of a file as it comes. A *RowError is about one row,
// which is left out; any other error ends the rows: a *FileError, or what the
// reader failed with.
func Read(from io.Reader, format Format, d Defaults) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		bounded := &boundedReader{from: from, left: maxRow}
		buffer := bufio.NewReaderSize(bounded, 1<<16)
		if mark, _ := buffer.Peek(3); bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
			_, _ = buffer.Discard(3) // what was peeked can be discarded
		}
		next := func(row Row, err error) bool {
			bounded.left = maxRow
			return yield(row, err)
		}
		switch format {
		case CSV:
			readCSV(buffer, d, next)
		case JSON:
			readJSON(buffer, d, next)
		default:
			readPlain(buffer, d, next)
		}
	}
}

var errRowTooLong = errors.New("the row is longer than 1 MiB; is a quote or brace left open?")

// boundedReader fails once a row has taken more than it may.
type boundedReader struct {
	from io.Reader
	left int
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errRowTooLong
	}
	n, err := b.from.Read(p)
	b.left -= n
	return n, err
}

// unreadable says why a file cannot be read on; what the reader beneath failed
// with stays as it is.
func unreadable(line int, err error) error {
	if errors.Is(err, errRowTooLong) {
		return &FileError{line, errRowTooLong.Error()}
	}
	return err
}

// Detect returns a file's format by its name, or by its first bytes where the
// name does not say.
func Detect(name string, head []byte) Format {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".csv":
		return CSV
	case ".json", ".jsonl", ".ndjson":
		return JSON
	}
	head = bytes.TrimSpace(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")))
	if len(head) > 0 && (head[0] == '{' || head[0] == '[') {
		return JSON
	}
	first, _, _ := bytes.Cut(head, []byte("\n"))
	cells, err := csv.NewReader(bytes.NewReader(first)).Read()
	if err == nil && slices.ContainsFunc(cells, func(cell string) bool { return strings.EqualFold(strings.TrimSpace(cell), "pattern") }) {
		return CSV
	}
	return Plain
}
