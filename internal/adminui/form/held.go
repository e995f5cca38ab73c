package form

import (
	"bytes"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/stint-dev/stint/internal/atomicfile"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/supervise"
)

const (
	// maxHeldBytes is the maximum size of a held file, in bytes.
	maxHeldBytes = 64 << 20
	// heldTime is how long a file is held.
	heldTime = 15 * time.Minute
	// maxHeld bounds the files that a node holds; one more replaces the oldest.
	maxHeld = 8
	// headBytes is how much of a file Head returns.
	headBytes = 4 << 10
)

// HeldFile is an uploaded file between its dry run and its import, so that exactly the tried
// file is imported. T is the note stored with it. It is safe for concurrent use.
type HeldFile[T any] struct {
	id, owner string
	name      string // as shown
	head      []byte
	expires   time.Time

	reading sync.Mutex // held while file is read
	file    *os.File

	mu   sync.Mutex
	note T
}

// ID identifies the file in the form that imports it.
func (h *HeldFile[T]) ID() string { return h.id }

// Name returns the name of the file, "" for a pasted list.
func (h *HeldFile[T]) Name() string { return h.name }

// Head returns the first bytes of the file, at most 4 KB.
func (h *HeldFile[T]) Head() []byte { return h.head }

// Read calls do with the file from its beginning, one call at a time. It returns ErrNotHeld
// after the file was dropped.
func (h *HeldFile[T]) Read(do func(io.Reader) error) error {
	h.reading.Lock()
	defer h.reading.Unlock()
	if _, err := h.file.Seek(0, io.SeekStart); err != nil {
		return ErrNotHeld
	}
	return do(h.file)
}

// Note returns the note set by SetNote or Hold.
func (h *HeldFile[T]) Note() T {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.note
}

// SetNote replaces the note.
func (h *HeldFile[T]) SetNote(note T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note = note
}

// empty frees the disk space of a file that will not be read again. Call it within Read.
func (h *HeldFile[T]) empty() { _ = h.file.Truncate(0) } // closing the file frees the space anyway

// close frees the disk space. The file has no name, so closing deletes it.
func (h *HeldFile[T]) close() {
	h.reading.Lock()
	defer h.reading.Unlock()
	h.file.Close()
}

// ErrNotHeld is the error for a file that was dropped, or that another node holds.
var ErrNotHeld = fault.New(fault.Conflict, "The file of the dry run is no longer kept here, so that this request imported nothing. A file is kept for 15 minutes, until you choose another, and only on the node of the dry run. If you have confirmed it before, the audit log says what was imported; otherwise choose it again.")

// HeldFiles are the files that this node holds. The zero value is ready for use. It is safe for
// concurrent use.
type HeldFiles[T any] struct {
	mu    sync.Mutex
	files []*HeldFile[T] // the oldest first
}

// Hold copies from and holds the copy for its owner, in place of the owner's previous file.
func (k *HeldFiles[T]) Hold(owner, name string, from io.Reader, note T, now time.Time) (*HeldFile[T], error) {
	file, err := atomicfile.Unnamed()
	if err != nil {
		return nil, err
	}
	h := &HeldFile[T]{id: uuid.NewString(), owner: owner, name: name, expires: now.Add(heldTime), note: note, file: file}
	if err := h.fill(from); err != nil {
		file.Close()
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dropWhere(func(other *HeldFile[T]) bool { return other.owner == owner || !now.Before(other.expires) })
	if len(k.files) >= maxHeld {
		oldest := k.files[0]
		k.dropWhere(func(other *HeldFile[T]) bool { return other == oldest })
	}
	k.files = append(k.files, h)
	time.AfterFunc(heldTime, func() { supervise.Do("uploaded files", func() { k.Drop(h) }) })
	return h, nil
}

func (h *HeldFile[T]) fill(from io.Reader) error {
	var head bytes.Buffer
	first, err := io.Copy(&head, io.LimitReader(from, headBytes))
	if err != nil {
		return uploadError(err)
	}
	h.head = head.Bytes()
	size, err := io.Copy(h.file, io.MultiReader(bytes.NewReader(h.head), io.LimitReader(from, maxHeldBytes+1-first)))
	switch {
	case err != nil:
		return uploadError(err)
	case size > maxHeldBytes:
		return fault.New(fault.TooLarge, "The file has more than %d MB. Split it, or import it by the command line.", maxHeldBytes>>20)
	case size == 0:
		return fault.Field("file", "Choose a file or paste a list; this one is empty.")
	}
	return nil
}

func uploadError(err error) error {
	return &fault.Error{Code: fault.Malformed, Message: "The file ended early or cannot be kept here.", Err: err}
}

// Find returns the owner's file with this id, nil for none.
func (k *HeldFiles[T]) Find(owner, id string, now time.Time) *HeldFile[T] {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range k.files {
		if h.id == id && h.owner == owner && now.Before(h.expires) {
			return h
		}
	}
	return nil
}

// Drop removes a file.
func (k *HeldFiles[T]) Drop(h *HeldFile[T]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dropWhere(func(other *HeldFile[T]) bool { return other == h })
}

// dropWhere removes the files for which is returns true. Closing a file waits for its reader,
// so it must not block the caller.
func (k *HeldFiles[T]) dropWhere(is func(*HeldFile[T]) bool) {
	k.files = slices.DeleteFunc(k.files, func(h *HeldFile[T]) bool {
		if is(h) {
			go supervise.Do("uploaded files", h.close)
			return true
		}
		return false
	})
}
