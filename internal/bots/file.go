package bots

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/stint-dev/stint/internal/atomicfile"
)

// saveInterval is how often the verified crawlers are written if they have changed.
const saveInterval = time.Minute

// maxFile bounds the file that is read, above what maxKnown crawlers take.
const maxFile = 16 << 20

// savedCrawler is a crawler in the file, which is a list of them.
type savedCrawler struct {
	Address  netip.Addr `json:"address"`
	Operator string     `json:"operator"`
	Name     string     `json:"name"`
	Verified time.Time  `json:"verified"`
}

// keep writes the file while crawlers change, until ctx is done.
func (v *Verifier) keep(ctx context.Context) {
	ticker := time.NewTicker(saveInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			v.save()
		}
	}
}

// load reads the file. Those crawlers count that are still believed, of operators that
// are recognised and by the names that these have. Whatever is wrong with the file is
// logged, and all are looked up again.
func (v *Verifier) load() {
	all, err := readFile(v.o.File)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			v.o.Log.Warn("the verified crawlers cannot be read and are looked up again", "file", v.o.File, "error", err)
		}
		return
	}
	known := make([]Crawler, len(all))
	for i, c := range all {
		known[i] = Crawler(c)
	}
	v.take(known)
	v.changed.Store(false)
}

// readFile reads a file that only this user can have written.
func readFile(path string) (all []savedCrawler, err error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	owner, known := info.Sys().(*syscall.Stat_t)
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o022 != 0 || known && int(owner.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("it is not a file that only this user can write (mode %04o)", info.Mode().Perm())
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("it has %d bytes, more than %d", info.Size(), maxFile)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	return all, err
}

// save writes the file if a crawler has changed since. A failure is logged once, and so
// is the next success.
func (v *Verifier) save() {
	if !v.changed.Swap(false) {
		return
	}
	all := []savedCrawler{}
	for _, c := range v.Verified() {
		all = append(all, savedCrawler(c))
	}
	err := writeFile(v.o.File, all)
	switch {
	case err != nil:
		v.changed.Store(true)
		if !v.broken.Swap(true) {
			v.o.Log.Warn("the verified crawlers cannot be written to the data directory; after a restart they are looked up again", "file", v.o.File, "error", err)
		}
	case v.broken.Swap(false):
		v.o.Log.Info("the verified crawlers are written again", "file", v.o.File)
	}
}

// writeFile replaces the file as a whole.
func writeFile(path string, all []savedCrawler) error {
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return atomicfile.WriteFile(path, text, 0o600)
}
