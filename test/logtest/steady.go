package logtest

import (
	"sync"
	"time"
)

// Steady returns a node's own clock, which never steps back: it advances with
// log's and, where that one steps back, by jump. A node that caches answers
// for jump may be wrong for as long after such a step; the suite checks what
// is true from then on.
func Steady(log *Clock, jump time.Duration) func() time.Time {
	var mu sync.Mutex
	last := log.Now()
	now := last
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		at := log.Now()
		if passed := at.Sub(last); passed >= 0 {
			now = now.Add(passed)
		} else {
			now = now.Add(jump)
		}
		last = at
		return now
	}
}
