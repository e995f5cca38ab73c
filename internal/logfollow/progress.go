package logfollow

import (
	"sync"
	"time"
)

// Progress is what a Run has done so far, for another goroutine to read. The zero value
// is ready to use, and a nil Progress is ignored.
type Progress struct {
	mu       sync.Mutex
	snapshot Snapshot
}

// Snapshot is what a Run has done at one time.
type Snapshot struct {
	Summary
	// Unread is how many bytes of the logs have not been checked.
	Unread int64
	// Delay is how long the last batch took from being read to its answer. While the
	// server does not answer, it grows.
	Delay time.Duration
	// AnsweredAt is when the server answered last; zero if it never has.
	AnsweredAt time.Time
}

// Snapshot returns what was done up to now.
func (p *Progress) Snapshot() Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.snapshot
}

// publish records what was done. readAt is when the batch was read that is being sent,
// zero for none; isAnswered says that the server has just answered.
func (p *Progress) publish(f *follower, readAt time.Time, isAnswered bool) {
	if p == nil {
		return
	}
	var unread int64
	for _, l := range f.logs {
		for _, t := range l.tails() {
			unread += t.unread()
		}
	}
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.snapshot.Summary, p.snapshot.Unread = f.counts, unread
	p.snapshot.FirstBad = nil // another goroutine must not read what is appended to
	if !readAt.IsZero() {
		p.snapshot.Delay = now.Sub(readAt)
	}
	if isAnswered {
		p.snapshot.AnsweredAt = now
	}
}

// unread returns how many bytes of a file have not been checked. Those of a compressed
// file are unknown and not counted.
func (t *tail) unread() int64 {
	if t.unpacked != nil {
		return 0
	}
	info, err := t.file.Stat()
	if err != nil {
		return 0
	}
	return max(info.Size()-t.done, 0)
}
