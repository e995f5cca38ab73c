package refusalcache

import (
	"sync"
	"time"
)

// shard is one part of the memory under one lock. What is kept goes to young;
// when that is full, or as old as a refusal may get, it becomes old and the old
// is dropped. So memory is bounded and nothing is ever looked for to be dropped.
type shard struct {
	mu         sync.Mutex
	young, old map[uint64]*entry // by the hash of the log's ref
	began      time.Time         // of young
	max        int
	// epoch counts what was forgotten: an answer to a request that was sent
	// before is not remembered.
	epoch uint64
	_     [64]byte // keeps the locks of neighbours off one cache line
}

// find returns what is known under a hash, which may be about another log.
func (s *shard) find(hash uint64) *entry {
	if f := s.young[hash]; f != nil {
		return f
	}
	return s.old[hash]
}

// keep keeps f, in the place of what was there under its hash.
func (s *shard) keep(hash uint64, f *entry, now time.Time) {
	if s.young == nil || len(s.young) >= s.max || now.Sub(s.began) >= MaxAge {
		s.old, s.young, s.began = s.young, map[uint64]*entry{}, now
	}
	s.young[hash] = f
}

// size returns how many logs are held.
func (s *shard) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.young) + len(s.old)
}
