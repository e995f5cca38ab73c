package adminui

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/supervise"
)

const (
	// maxImport is the largest file that the pages import, in bytes.
	maxImport = 64 << 20
	// heldTime is how long a file that was tried can still be imported.
	heldTime = 15 * time.Minute
	// maxHeld is how many files wait on a node at most; the oldest frees room.
	maxHeld = 8
)

// heldFile is a file that a dry run read and that waits for its import. It is
// kept here, so that what is imported is what was tried.
type heldFile struct {
	id      string
	owner   string // the session that brought it
	name    string // as it is shown
	format  blocklist.Format
	bytes   int64
	expires time.Time
	options importForm

	mu     sync.Mutex // one reads it at a time
	file   *os.File
	report *blocklist.ImportReport // of the dry run, nil before it
}

// ID names the file in the form that imports it.
func (h *heldFile) ID() string { return h.id }

// Name is what the file was called, "" for a list that was pasted.
func (h *heldFile) Name() string { return h.name }

// read returns the file from its beginning.
func (h *heldFile) read() (io.Reader, error) {
	_, err := h.file.Seek(0, io.SeekStart)
	return h.file, err
}

// tried keeps what the dry run said.
func (h *heldFile) tried(r *blocklist.ImportReport) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.report = r
}

// foretold returns what the dry run said.
func (h *heldFile) foretold() *blocklist.ImportReport {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.report
}

// close gives the file's room back. Its name has gone already.
func (h *heldFile) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.file.Close()
}

// heldFiles are the files that wait on this node.
type heldFiles struct {
	mu    sync.Mutex
	files []*heldFile // the oldest first
}

// keep copies what from holds and keeps it for its owner, whose former file
// frees room for it.
func (k *heldFiles) keep(owner, name string, from io.Reader, o importForm, now time.Time) (*heldFile, error) {
	file, err := os.CreateTemp("", "stint-import-*")
	if err != nil {
		return nil, err
	}
	// Without a name it goes with the process, however that ends.
	if err := os.Remove(file.Name()); err != nil {
		file.Close()
		return nil, err
	}
	h := &heldFile{id: uuid.NewString(), owner: owner, name: name, expires: now.Add(heldTime), options: o, file: file}
	if err := h.fill(from); err != nil {
		file.Close()
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drop(func(other *heldFile) bool { return other.owner == owner || !now.Before(other.expires) })
	if len(k.files) >= maxHeld {
		oldest := k.files[0]
		k.drop(func(other *heldFile) bool { return other == oldest })
	}
	k.files = append(k.files, h)
	time.AfterFunc(heldTime, func() { supervise.Do("uploaded files", func() { k.forget(h) }) })
	return h, nil
}

// fill copies a file and finds out what it is.
func (h *heldFile) fill(from io.Reader) error {
	buffered := bufio.NewReaderSize(from, sniffed)
	head, err := buffered.Peek(sniffed)
	if err != nil && !errors.Is(err, io.EOF) {
		return uploadError(err)
	}
	h.format = formatOf(h.name, head)
	if h.bytes, err = io.Copy(h.file, io.LimitReader(buffered, maxImport+1)); err != nil {
		return uploadError(err)
	}
	switch {
	case h.bytes > maxImport:
		return fault.New(fault.TooLarge, "The file has more than %d MB. Split it, or use the command line: admin block import.", maxImport>>20)
	case h.bytes == 0:
		return fault.Field("file", "Choose a file or paste a list; this one is empty.")
	}
	return nil
}

func uploadError(err error) error {
	return &fault.Error{Code: fault.Malformed, Message: "The file ended early or cannot be kept here.", Err: err}
}

// find returns a file that waits, nil where it is not its owner's or has gone.
func (k *heldFiles) find(owner, id string, now time.Time) *heldFile {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range k.files {
		if h.id == id && h.owner == owner && now.Before(h.expires) {
			return h
		}
	}
	return nil
}

// forget gives up a file.
func (k *heldFiles) forget(h *heldFile) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drop(func(other *heldFile) bool { return other == h })
}

// drop gives up the files that a rule names. Closing waits until whoever reads
// one is done, which must keep nobody else waiting.
func (k *heldFiles) drop(goes func(*heldFile) bool) {
	k.files = slices.DeleteFunc(k.files, func(h *heldFile) bool {
		if goes(h) {
			go supervise.Do("uploaded files", func() { h.close() })
			return true
		}
		return false
	})
}

// sniffed is how much of a file is looked at to tell its format.
const sniffed = 4 << 10

// formatOf tells a file's format by its name, and by its beginning where the
// name does not say.
func formatOf(name string, head []byte) blocklist.Format {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".csv":
		return blocklist.CSV
	case ".json", ".jsonl", ".ndjson":
		return blocklist.JSON
	}
	head = bytes.TrimSpace(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")))
	if len(head) > 0 && (head[0] == '{' || head[0] == '[') {
		return blocklist.JSON
	}
	first, _, _ := bytes.Cut(head, []byte("\n"))
	cells, err := csv.NewReader(bytes.NewReader(first)).Read()
	if err == nil && slices.ContainsFunc(cells, func(cell string) bool { return strings.EqualFold(strings.TrimSpace(cell), "pattern") }) {
		return blocklist.CSV
	}
	return blocklist.Plain
}
