package refusalcache

import (
	"sync"
	"time"
)

// shard is one part of the cache under one lock. Entries are stored in young. When
// young is full, or older than MaxAge, it becomes old and the previous old is
// dropped. So memory is bounded without searching for expired entries.
type shard struct {
	mu         sync.Mutex
	young, old map[uint64]*entry // by the hash of the log's id
	began      time.Time         // of young
	max        int
	// epoch counts removals: the answer to a request that was sent before one is
	// not stored.
	epoch uint64
	_     [64]byte // so that neighbouring locks do not share a cache line
}

// find returns the entry of a hash, which may be of another log.
func (s *shard) find(hash uint64) *entry {
	if f := s.young[hash]; f != nil {
		return f
	}
	return s.old[hash]
}

// keep stores f in place of the previous entry of its hash.
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
