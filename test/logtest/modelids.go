package logtest

import "github.com/stint-dev/stint/internal/timestamplog"

// modelID is what is known of an ID that was charged.
type modelID struct {
	reservation int64
	cost        int
}

// modelIDs are the IDs that were charged to each log.
type modelIDs map[timestamplog.LogID]map[string]modelID

// again answers a request that was charged before as it was answered then, and reports whether
// it was.
func (m modelIDs) again(now int64, q timestamplog.Request, a *answer) bool {
	id, known := m[q.LogID][q.ID]
	if !known || q.ID == "" || q.Peek || now >= id.reservation+timestamplog.IDLifetime {
		return false
	}
	a.ReservedAt, a.Replayed, a.ReplayedCost = id.reservation, true, id.cost
	return true
}

func (m modelIDs) add(q timestamplog.Request, reservation int64) {
	if q.ID == "" {
		return
	}
	if m[q.LogID] == nil {
		m[q.LogID] = map[string]modelID{}
	}
	m[q.LogID][q.ID] = modelID{reservation, q.Cost}
}

func (m modelIDs) knows(reservation timestamplog.Reservation) bool {
	id, known := m[reservation.LogID][reservation.ID]
	return known && id == modelID{reservation.At, reservation.Cost}
}

// reservationsOfIDs returns the reservations of all IDs.
func (m modelIDs) reservationsOfIDs() []int64 {
	var reservations []int64
	for _, known := range m {
		for _, id := range known {
			reservations = append(reservations, id.reservation)
		}
	}
	return reservations
}
