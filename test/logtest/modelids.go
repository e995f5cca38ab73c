package logtest

import "github.com/stint-dev/stint/internal/timestamplog"

// modelID is what is known of an ID that was charged.
type modelID struct {
	reservation int64
	cost        int
}

// modelIDs are the IDs that were charged to each log.
type modelIDs map[timestamplog.LogID]map[string]modelID

// again returns the reservation of a request that was charged before.
func (m modelIDs) again(now int64, q timestamplog.Request) (reservation int64, known bool) {
	id, known := m[q.LogID][q.ID]
	return id.reservation, known && q.ID != "" && !q.Peek && now < id.reservation+timestamplog.IDLifetime
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
