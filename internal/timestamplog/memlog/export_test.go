package memlog

import "github.com/stint-dev/stint/internal/timestamplog"

// WallClock is the default clock of a log.
var WallClock = wallClock

// KnownIDs returns how many IDs the log knows.
func (l *Log) KnownIDs() int {
	n := 0
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		for _, log := range s.ids.logs {
			n += len(log.reservations)
		}
		s.mu.Unlock()
	}
	return n
}

// Accounted returns how many bytes the logs take, first by recounting and then as accounted for.
func (l *Log) Accounted() (counted, kept int64) {
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		for _, k := range s.logs.all() {
			counted += int64(s.size(k))
		}
		for _, known := range s.ids.logs {
			counted += int64(known.size())
		}
		s.mu.Unlock()
	}
	return counted, l.bound.used.Load()
}

// Has reports whether there is a log that has not expired.
func (l *Log) Has(id timestamplog.LogID) bool {
	hash := hashOf(l.seed, id)
	s := l.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, hash := range []uint64{hash, counterHash(hash), distinctHash(hash)} {
		if k := s.logs.find(hash, id); k != nil && !k.expired(l.now().UnixMilli()) {
			return true
		}
	}
	return false
}
