package refusals_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/timestamplog/logtest"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/internal/timestamplog/refusals"
)

// steady is the node's own clock, which never steps back. It goes on with the
// log's and, where that one steps back, by as long as a node remembers: until
// then it may refuse what the log would allow, as the package says, and the
// suite asks what holds from then on.
type steady struct {
	log *logtest.Clock

	mu        sync.Mutex
	last, now time.Time
}

func (s *steady) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.log.Now()
	if passed := at.Sub(s.last); passed >= 0 {
		s.now = s.now.Add(passed)
	} else {
		s.now = s.now.Add(refusals.Longest)
	}
	s.last = at
	return s.now
}

// What a node remembers must not show in any answer.
func TestContract(t *testing.T) {
	logtest.Run(t, func(*testing.T) logtest.Harness {
		clock := logtest.NewClock()
		node := &steady{log: clock, last: clock.Now(), now: clock.Now()}
		log := refusals.New(memlog.New(memlog.Options{Now: clock.Now}), refusals.Options{Now: node.Now})
		return logtest.Harness{Log: log, Clock: clock, ClockExpires: true}
	})
}
