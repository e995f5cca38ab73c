package memlog

// KnownIDs returns how many IDs are held.
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
