package memlog

import (
	"strings"

	"github.com/stint-dev/stint/internal/timestamplog"
)

// ids holds the IDs of the requests that a shard has charged within IDLifetime, with their
// reservations. IDs outlive their logs. The zero value is empty.
type ids struct {
	logs map[timestamplog.LogID]*logIDs
	// queue has each element of logs once, in the order in which sweep examines them.
	queue []expiringIDs
	bytes int // what all take, approximately
}

type expiringIDs struct {
	*logIDs
	at int64 // Unix milliseconds
}

// logIDs are the IDs of one log.
type logIDs struct {
	log          timestamplog.LogID
	reservations map[string]charged
	// order has the IDs in the order of their arrival, for dropOld.
	order []named
	// shifted is how many milliseconds the log was shifted back since the first of these IDs
	// was added. The stored reservations do not include it.
	shifted int64
}

// charged is the reservation and the cost of an ID.
type charged struct {
	reservation int64
	cost        int32
}

type named struct {
	id string
	charged
}

// reservationOf returns the reservation and the cost of an ID, and whether the ID is known.
func (s *ids) reservationOf(log timestamplog.LogID, id string, now int64) (of charged, known bool) {
	l := s.logs[log]
	if l == nil {
		return charged{}, false
	}
	of, known = l.reservations[id]
	of.reservation -= l.shifted
	return of, known && now < of.reservation+timestamplog.IDLifetime
}

// replay answers q as it was answered before if its ID is known, and reports whether it is.
func (s *ids) replay(q *timestamplog.Request, r *timestamplog.Result, now int64) bool {
	if q.ID == "" || q.Peek {
		return false
	}
	of, known := s.reservationOf(q.LogID, q.ID, now)
	if known {
		r.ReservedAt, r.Replayed, r.ReplayedCost = of.reservation, true, int(of.cost)
	}
	return known
}

// add makes an ID known until IDLifetime after its reservation. Strings are copied, because
// they may be part of a larger string. Only Cancel needs the cost, and reservations cost at
// most MaxCost.
func (s *ids) add(log timestamplog.LogID, id string, reservation int64, cost int, now int64) {
	s.sweep(now, sweepPerCheck)
	l := s.logs[log]
	if l == nil {
		log.Key = strings.Clone(log.Key)
		l = &logIDs{log: log, reservations: map[string]charged{}}
		if s.logs == nil {
			s.logs = map[timestamplog.LogID]*logIDs{}
		}
		s.logs[log] = l
		s.queue = append(s.queue, expiringIDs{l, now + timestamplog.IDLifetime})
		s.bytes += knownBytes + len(log.Key)
	}
	s.bytes -= l.dropOld(now)
	kept := named{strings.Clone(id), charged{reservation + l.shifted, int32(min(cost, timestamplog.MaxCost))}}
	l.reservations[kept.id] = kept.charged
	l.order = append(l.order, kept)
	s.bytes += idBytes + len(id)
}

// dropOld drops the IDs whose lifetime is over, oldest first, and returns how many bytes that
// frees.
func (l *logIDs) dropOld(now int64) (bytes int) {
	for len(l.order) > 0 {
		oldest := l.order[0]
		if now < oldest.reservation-l.shifted+timestamplog.IDLifetime {
			return bytes
		}
		bytes += idBytes + len(oldest.id)
		if l.reservations[oldest.id] == oldest.charged {
			delete(l.reservations, oldest.id)
		}
		l.order[0] = named{}
		l.order = l.order[1:]
	}
	return bytes
}

// size returns how many bytes the IDs of one log take, approximately.
func (l *logIDs) size() int {
	bytes := knownBytes + len(l.log.Key)
	for i := range l.order {
		bytes += idBytes + len(l.order[i].id)
	}
	return bytes
}

// knows reports whether the reservation's ID is known with the same time and cost.
func (s *ids) knows(reservation timestamplog.Reservation) bool {
	l := s.logs[reservation.LogID]
	return l != nil && l.reservations[reservation.ID] == charged{reservation.At + l.shifted, int32(min(reservation.Cost, timestamplog.MaxCost))}
}

// drop forgets the ID of a reservation, if it is known.
func (s *ids) drop(reservation timestamplog.Reservation) {
	if s.knows(reservation) {
		delete(s.logs[reservation.LogID].reservations, reservation.ID)
	}
}

// shiftTimes moves the reservations of a log back.
func (s *ids) shiftTimes(log timestamplog.LogID, by int64) {
	if l := s.logs[log]; l != nil {
		l.shifted += by
	}
}

// forget forgets the IDs of a log.
func (s *ids) forget(log timestamplog.LogID) {
	if l := s.logs[log]; l != nil {
		s.bytes -= l.size()
		delete(s.logs, log)
	}
}

// forgetOldest forgets the IDs of up to maxForgotten logs, in the order of the queue, and
// reports whether there were any.
func (s *ids) forgetOldest(maxForgotten int) bool {
	forgotten := 0
	for forgotten < maxForgotten && len(s.queue) > 0 {
		oldest := s.queue[0]
		s.queue[0] = expiringIDs{}
		if s.queue = s.queue[1:]; s.logs[oldest.log] == oldest.logIDs {
			s.forget(oldest.log)
			forgotten++
		}
	}
	return forgotten > 0
}

// sweep examines up to budget logs from the head of the queue, drops their IDs whose lifetime
// is over, and reports whether there may be more.
func (s *ids) sweep(now int64, budget int) (more bool) {
	for range budget {
		if len(s.queue) == 0 {
			return false
		}
		due := s.queue[0]
		// An entry due more than IDLifetime from now was queued before the clock stepped back.
		if wait := due.at - now; wait > 0 && wait <= timestamplog.IDLifetime {
			return false
		}
		s.queue[0] = expiringIDs{}
		s.queue = s.queue[1:]
		if s.logs[due.log] != due.logIDs {
			continue // forgotten since it was queued
		}
		if s.bytes -= due.dropOld(now); len(due.reservations) == 0 {
			s.forget(due.log)
			continue
		}
		s.queue = append(s.queue, expiringIDs{due.logIDs, now + timestamplog.IDLifetime})
	}
	return true
}
