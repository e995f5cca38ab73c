package geoip

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/stint-dev/stint/internal/keys"
)

// Follower puts changed files into effect, and says where patterns of origins select
// nothing because their files are missing.
type Follower struct {
	Database *Database // nil without a directory
	// Patterns counts the active patterns that need the files.
	Patterns func() keys.OriginCount
	Log      *slog.Logger
	// Notify informs people that something is wrong, or right again.
	Notify func(ctx context.Context, trouble bool, subject, text string)

	reading  sync.Mutex // held while files are read
	failed   atomic.Bool
	unserved string // the problem that people know of, "" for none
}

// Failed reports whether the files could not be read again.
func (f *Follower) Failed() bool { return f.failed.Load() }

// Follow reads the files again if they have changed. It is for one goroutine at a time.
func (f *Follower) Follow(ctx context.Context) {
	f.Reload(ctx)
	problem := f.Problem()
	if problem == f.unserved {
		return
	}
	f.unserved = problem
	if problem != "" {
		count := f.Patterns()
		f.Log.Error("patterns of asn: or country: are active, but "+problem, "patterns", count.ASNs+count.Countries)
		f.Notify(ctx, true, "Patterns of asn: or country: match no address", "They are active, but "+problem+".")
		return
	}
	f.Log.Info("patterns of asn: and country: match again, or have ended")
	f.Notify(ctx, false, "Patterns of asn: and country: match again, or have ended", "")
}

// Problem says why active patterns of origins select nothing, "" if there are none or they
// do select.
func (f *Follower) Problem() string {
	count := f.Patterns()
	if count == (keys.OriginCount{}) {
		return ""
	}
	if f.Database == nil {
		return "this node has no --geoip-dir, so that they match no address"
	}
	t := f.Database.loaded.Load()
	switch {
	case count.ASNs > 0 && !t.hasASN:
		return "the files of this node know no autonomous systems, so that those of asn: match no address"
	case count.Countries > 0 && !t.hasCountry:
		return "the files of this node know no countries, so that those of country: match no address"
	}
	return ""
}

// Reload reads the files again if they have changed. Those before stay in effect where any
// is not usable, which is logged once.
func (f *Follower) Reload(ctx context.Context) {
	f.reading.Lock()
	defer f.reading.Unlock()
	changed, err := f.Database.Reload()
	switch {
	case err != nil && !f.failed.Swap(true):
		f.Log.Error("the GeoIP files could not be read again, the earlier ones stay in effect", "error", err)
		f.Notify(ctx, true, "The GeoIP files could not be read again", "The earlier ones stay in effect: "+err.Error()+".")
	case err == nil && f.failed.Swap(false):
		f.Log.Info("the GeoIP files can be read again")
		f.Notify(ctx, false, "The GeoIP files can be read again", "")
	}
	if changed {
		f.Log.Info("new GeoIP files are in effect", "files", f.Database.describe())
	}
}

func (d *Database) describe() string {
	var all []string
	for _, file := range d.Files() {
		all = append(all, file.Name+" of "+file.Built.Format("2006-01-02"))
	}
	return strings.Join(all, ", ")
}

// Select makes the patterns of this process select by the database, until the function
// that it returns is called.
func (f *Follower) Select() (end func()) {
	if f.Database == nil {
		return func() {}
	}
	return keys.LocateBy(f.Database)
}
