package firewall

import (
	"sync"
	"time"
)

// Progress is what a Sync has done so far, for another goroutine to read. The zero value
// is ready to use, and a nil Progress is ignored.
type Progress struct {
	mu       sync.Mutex
	snapshot Snapshot
}

// Snapshot is what a Sync has done at one time.
type Snapshot struct {
	Summary            // of the last write
	Added, Removed int // ranges put in and taken out since the start
	Comparisons    int // of everything
	Failures       int // attempts to list or to write that are repeated
	IsConnected    bool
	// ComparedAt is when the sets were last known to equal the blocks; zero for never.
	ComparedAt time.Time
}

// Snapshot returns what was done up to now.
func (p *Progress) Snapshot() Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.snapshot
}

func (p *Progress) change(f func(*Snapshot)) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.snapshot)
}

// written says that the sets were made equal to the blocks.
func (p *Progress) written(sum Summary, added, removed int, isComparison bool) {
	p.change(func(s *Snapshot) {
		s.Summary = sum
		s.Added += added
		s.Removed += removed
		if isComparison {
			s.Comparisons++
			s.ComparedAt = time.Now()
		}
	})
}

// failed says that a listing or a write has failed.
func (p *Progress) failed() { p.change(func(s *Snapshot) { s.Failures++ }) }

// connected says whether changes of the server are followed.
func (p *Progress) connected(isConnected bool) {
	p.change(func(s *Snapshot) { s.IsConnected = isConnected })
}
