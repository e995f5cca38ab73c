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
	began      time.Time         // when young was created
	max        int
	// epoch counts removals. An answer is not stored if a removal happened after its request
	// was sent.
	epoch uint64
	_     [64]byte // so that neighbouring locks do not share a cache line
}

// find returns the entry of a hash. It may belong to another log with the same hash.
func (s *shard) find(hash uint64) *entry {
	if e := s.young[hash]; e != nil {
		return e
	}
	return s.old[hash]
}

// keep stores e in place of the previous entry of its hash.
func (s *shard) keep(hash uint64, e *entry, now time.Time) {
	if s.young == nil || len(s.young) >= s.max || now.Sub(s.began) >= MaxAge {
		s.old, s.young, s.began = s.young, map[uint64]*entry{}, now
	}
	s.young[hash] = e
}

// forget removes the entry of a hash.
func (s *shard) forget(hash uint64) {
	s.epoch++
	delete(s.young, hash)
	delete(s.old, hash)
}

// size returns the number of entries in both maps.
func (s *shard) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.young) + len(s.old)
}
