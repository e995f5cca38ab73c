// Package geoip knows the origins of addresses, by files of the MaxMind DB format that the
// operator provides, and their names in DNS. It asks the network for nothing but the
// names, and for these only where --reverse-dns says so.
package geoip

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stint-dev/stint/internal/keys"
)

var _ keys.Locator = (*Database)(nil)

// Database is the files of a directory. It is safe for concurrent use: Reload replaces all
// files at once. A nil one knows nothing.
type Database struct {
	dir    string
	loaded atomic.Pointer[tables]
	failed atomic.Pointer[failedRead] // the newest read, nil unless it failed
}

// failedRead is files that could not be read.
type failedRead struct {
	stamp string
	err   error
}

// tables are the files as they were read.
type tables struct {
	stamp      string // of the files, to see that they have changed
	files      []FileInfo
	spans      [2][]span
	extents    map[keys.Origin]keys.Extent
	names      map[uint32]string
	hasASN     bool
	hasCountry bool
}

// FileInfo describes one file.
type FileInfo struct {
	Name, Kind string
	Built      time.Time
}

// Open reads all files of a directory whose names end in .mmdb. Its error is one line that
// names the file. "" is no directory: the database is nil then.
func Open(dir string) (*Database, error) {
	if dir == "" {
		return nil, nil
	}
	d := &Database{dir: dir}
	_, err := d.Reload()
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Reload reads the files again if they have changed, and reports whether it did. After an
// error those read before stay in effect, and the error is returned without reading again
// until a file changes.
func (d *Database) Reload() (changed bool, err error) {
	if d == nil {
		return false, nil
	}
	paths, err := filepath.Glob(filepath.Join(escapeGlob(d.dir), "*.mmdb"))
	if err != nil {
		return false, fmt.Errorf("%s: %w", d.dir, err)
	}
	if len(paths) == 0 {
		if _, err := os.ReadDir(d.dir); err != nil {
			return false, fmt.Errorf("%s cannot be read: %w", d.dir, errors.Unwrap(err))
		}
		return false, fmt.Errorf("%s has no file whose name ends in .mmdb", d.dir)
	}
	sort.Strings(paths)
	before := stampOf(paths)
	if known := d.loaded.Load(); known != nil && known.stamp == before {
		d.failed.Store(nil)
		return false, nil
	}
	if failed := d.failed.Load(); failed != nil && failed.stamp == before {
		return false, failed.err // as they would fail again
	}
	t := &tables{stamp: before, extents: map[keys.Origin]keys.Extent{}, names: map[uint32]string{}}
	for _, path := range paths {
		f, err := readFile(path, filepath.Base(path))
		if err != nil {
			err = fmt.Errorf("%s %w", path, err)
			if !errors.As(err, new(syscall.Errno)) { // permissions change without the file
				d.failed.Store(&failedRead{before, err})
			}
			return false, err
		}
		t.add(f)
	}
	t.measure()
	d.loaded.Store(t)
	d.failed.Store(nil)
	return true, nil
}

// add adds what the files before do not know.
func (t *tables) add(f *file) {
	t.files = append(t.files, f.FileInfo)
	for family := range t.spans {
		t.spans[family] = merge(t.spans[family], f.spans[family])
	}
	for asn, name := range f.names {
		if t.names[asn] == "" {
			t.names[asn] = name
		}
	}
}

func (t *tables) measure() {
	for family, spans := range t.spans {
		for _, s := range spans {
			if s.origin.ASN != 0 {
				t.hasASN = true
				add(t.extents, keys.Origin{ASN: s.origin.ASN}, family, s)
			}
			if s.origin.Country != (keys.Country{}) {
				t.hasCountry = true
				add(t.extents, keys.Origin{Country: s.origin.Country}, family, s)
			}
		}
	}
}

func escapeGlob(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

// stampOf changes when a file is replaced or written.
func stampOf(paths []string) string {
	var b strings.Builder
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			fmt.Fprintf(&b, "%s %d %d\n", path, info.Size(), info.ModTime().UnixNano())
		}
	}
	return b.String()
}

// Locate implements keys.Locator. It allocates nothing.
func (d *Database) Locate(a netip.Addr) keys.Origin {
	if d == nil {
		return keys.Origin{}
	}
	family, at := positionOf(a)
	spans := d.loaded.Load().spans[family]
	if i := find(spans, at); i < len(spans) && spans[i].start <= at {
		return spans[i].origin
	}
	return keys.Origin{}
}

// Extent implements keys.Locator.
func (d *Database) Extent(o keys.Origin) (keys.Extent, bool) {
	if d == nil {
		return keys.Extent{}, false
	}
	t := d.loaded.Load()
	return t.extents[o], o.ASN != 0 && t.hasASN || o.ASN == 0 && t.hasCountry
}

// Overlaps implements keys.Locator.
func (d *Database) Overlaps(o keys.Origin, network netip.Prefix) bool {
	if d == nil {
		return false
	}
	family, within := spanOf(network)
	spans := d.loaded.Load().spans[family]
	for i := find(spans, within.start); i < len(spans) && spans[i].start <= within.end; i++ {
		if o.Selects(spans[i].origin) {
			return true
		}
	}
	return false
}

// Networks returns the networks of an origin of which one part is set, false where they are
// more than limit.
func (d *Database) Networks(o keys.Origin, limit int) (all []netip.Prefix, isAll bool) {
	if d == nil {
		return nil, true
	}
	for family, spans := range d.loaded.Load().spans {
		for _, s := range spans {
			if o.Selects(s.origin) && !s.networks(family, func(p netip.Prefix) bool {
				if len(all) < limit {
					all = append(all, p)
					return true
				}
				return false
			}) {
				return nil, false
			}
		}
	}
	return all, true
}

// NameOf returns the name of an autonomous system, "" where it is not known.
func (d *Database) NameOf(asn uint32) string {
	if d == nil {
		return ""
	}
	return d.loaded.Load().names[asn]
}

// Files returns the files that are in effect, by name.
func (d *Database) Files() []FileInfo {
	if d == nil {
		return nil
	}
	return d.loaded.Load().files
}
