package app

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/stint-dev/stint/internal/atomicfile"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/supervise"
)

// How often the last known policies and blocks are written.
const (
	// saveDelay combines changes that happen together into one write.
	saveDelay = 300 * time.Millisecond
	// savePause bounds the cost: after each write a node pauses for this many times
	// as long as the write took.
	savePause = 20
	// confirmInterval is how often the file is marked as still current.
	confirmInterval = 15 * time.Second
)

// lastKnown saves the last policies, blocks and exemptions that a distributed node
// read to a file in the data directory, so that it can start while the database is
// unreachable. Nodes on one machine may share the directory: a file belongs to one
// database, and each write replaces all of it.
type lastKnown struct {
	path   string
	source string
	log    *slog.Logger
	dirty  chan struct{} // holds a value if something has changed
	broken bool          // the last write failed, which was logged
	result save
}

func newLastKnown(folder, source string, log *slog.Logger) *lastKnown {
	mark := sha256.Sum256([]byte(source))
	path := filepath.Join(folder, fmt.Sprintf("last-known-%x.state", mark[:8]))
	if full, err := filepath.Abs(path); err == nil {
		path = full
	}
	return &lastKnown{result: save{name: "last-known", what: "The file of the last known policies and blocks"}, path: path, source: source, log: log, dirty: make(chan struct{}, 1)}
}

// changed requests a write. It never blocks.
func (k *lastKnown) changed() {
	select {
	case k.dirty <- struct{}{}:
	default:
	}
}

// load reads the file. Its error is fs.ErrNotExist if there is no file, otherwise one line.
func (k *lastKnown) load() (*catalog.Saved, time.Time, error) {
	file, err := os.OpenFile(k.path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, time.Time{}, err
	}
	owner, known := info.Sys().(*syscall.Stat_t)
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 || known && int(owner.Uid) != os.Geteuid() {
		return nil, time.Time{}, fmt.Errorf("it is not a file that only this user can read and write (mode %04o)", info.Mode().Perm())
	}
	saved, err := catalog.ReadSaved(file, k.source)
	return saved, info.ModTime(), err
}

// keep writes the file after each change until ctx ends, and then once more if something has
// changed.
func (k *lastKnown) keep(ctx context.Context, c *catalog.Catalog) {
	confirm := time.NewTicker(confirmInterval)
	defer confirm.Stop()
	for {
		select {
		case <-ctx.Done():
			select {
			case <-k.dirty:
				k.save(c)
			default:
			}
			return
		case <-confirm.C:
			k.confirm(c)
			continue
		case <-k.dirty:
		}
		if supervise.Sleep(ctx, saveDelay) == nil {
			began := time.Now()
			k.save(c)
			_ = supervise.Sleep(ctx, savePause*time.Since(began)) // the loop checks ctx
		} else {
			k.changed() // for the last write
		}
	}
}

// save writes the file. The node continues without it: a failure is logged once, and
// so is the next success.
func (k *lastKnown) save(c *catalog.Catalog) {
	saved := c.Snapshot()
	if saved == nil {
		return
	}
	err := k.write(saved)
	if err != nil && !k.broken {
		k.log.Warn("the last known policies and blocks cannot be written to the data directory; without its database this node could not start",
			"file", k.path, "error", oneLine(err))
	}
	if err == nil && k.broken {
		k.log.Info("the last known policies and blocks are written again", "file", k.path)
	}
	k.broken = err != nil
	k.result.done(time.Now(), err)
}

func (k *lastKnown) write(saved *catalog.Saved) error {
	if err := os.MkdirAll(filepath.Dir(k.path), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(k.path, 0o600, func(file *os.File) error { return saved.Write(file, k.source) })
}

// confirm marks the file as current if the database answers: its modification time is
// the last time at which its content was known to be current. A file that could not be
// written is written again.
func (k *lastKnown) confirm(c *catalog.Catalog) {
	if k.broken {
		k.changed()
		return
	}
	_, unconfirmed := c.Unconfirmed()
	if _, failing := c.Failing(); failing != nil || unconfirmed || !c.Loaded() || len(k.dirty) > 0 {
		return
	}
	now := time.Now()
	switch err := os.Chtimes(k.path, now, now); {
	case err == nil:
		k.result.done(now, nil)
	case errors.Is(err, fs.ErrNotExist):
		k.changed() // it was deleted
	}
}
