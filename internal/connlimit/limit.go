// Package connlimit bounds the connections of a listener, so that nobody who opens many keeps
// others from being answered, and keeps listeners going while the system is short of what a
// connection needs.
package connlimit

import "sync"

// Activity is what a connection does.
type Activity int

// The activities, those first in which a connection is missed least.
const (
	Idle           Activity = iota // it waits for a request
	AwaitingClient                 // it waits for the rest of one, or for its client to read a response
	Starting                       // it is new: its first request may be on its way
	Answering                      // one is being answered
)

// Conn is a connection that may be closed for another one. Its methods must not wait.
type Conn interface {
	// Activity says what the connection does now.
	Activity() Activity
	// TakeUsed reports whether a request came since the last call.
	TakeUsed() bool
	// Cut closes the connection, after the answer if it is being answered by now.
	Cut()
}

// Set holds the open connections of a listener, at most as many as its limit. It is safe for
// concurrent use.
type Set struct {
	max int

	mu   sync.Mutex
	open map[Conn]struct{}
	cut  int64
}

// NewSet returns an empty set of at most max connections; 0 means any number.
func NewSet(max int) *Set {
	return &Set{max: max, open: map[Conn]struct{}{}}
}

// maxLooked is how many connections are looked at for one to close, so that accepting one
// costs no more with a higher limit.
const maxLooked = 256

// Add takes a new connection. If the set is full it closes another one of a sample for it: one
// that was not used lately, by its Activity, or else one that was; never one that is being
// answered. It returns false if there is no room, and the caller is to close the new one.
func (s *Set) Add(c Conn) bool {
	s.mu.Lock()
	var victim Conn
	isFull := s.max > 0 && len(s.open) >= s.max
	if isFull {
		s.cut++
		if victim = s.victim(); victim == nil {
			s.mu.Unlock()
			return false
		}
		delete(s.open, victim)
	}
	s.open[c] = struct{}{}
	s.mu.Unlock()
	if victim != nil {
		victim.Cut()
	}
	return true
}

// victim returns a connection to close, nil if all that were looked at are being answered.
// Each look at another one takes its mark of use from it, so that those without one have not
// been used since the last look: the clock algorithm, in the order of the map.
func (s *Set) victim() (victim Conn) {
	const used = int(Answering) // is added for one that was used
	best, looked := 2*used, 0
	for c := range s.open {
		if looked++; looked > maxLooked {
			break
		}
		rank := int(c.Activity())
		if rank == int(Answering) {
			continue
		}
		if c.TakeUsed() {
			rank += used
		}
		if rank < best {
			victim, best = c, rank
		}
		if best == int(Idle) {
			break
		}
	}
	return victim
}

// Remove forgets a connection that is closed, and may be called again.
func (s *Set) Remove(c Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// All returns the open connections.
func (s *Set) All() []Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Conn, 0, len(s.open))
	for c := range s.open {
		all = append(all, c)
	}
	return all
}

// Stats are counts of a set.
type Stats struct {
	Open int   // connections now
	Max  int   // 0 for any number
	Cut  int64 // connections that were closed or refused because the set was full
}

// Stats returns the counts.
func (s *Set) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{len(s.open), s.max, s.cut}
}
