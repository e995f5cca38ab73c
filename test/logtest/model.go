package logtest

import (
	"maps"
	"slices"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// model is a Log by brute force: it counts, where a real one looks up boundary
// entries, and searches for the end of a wait instead of computing it.
type model struct {
	logs map[timestamplog.LogID]*modelLog
	modelIDs
	// allowed has every logged time of a log, also those that its log dropped,
	// but no reservation was cancelled, moved along with the log.
	allowed map[timestamplog.LogID][]allowedTime
	// cancelled has the charges that were cancelled.
	cancelled map[timestamplog.Reservation]bool
}

type modelLog struct {
	entries []modelEntry // in order, the oldest first
	window  int64        // milliseconds after which the log expires
	pushed  int64        // when it was last pushed to
}

type modelEntry struct {
	at            int64
	isReservation bool // made for an instant that was ahead
}

type allowedTime struct {
	at      int64
	version int64  // of the policy that allowed it
	id      string // of the request
}

// answer is a Result and, per rule, when that rule alone would give the request
// its reservation, and the entry it waits for. Any rule that waits longest may be
// named; where none waits as long as for the reservations ahead, the last is.
type answer struct {
	timestamplog.Result
	reservation int64   // also where it is refused
	retries     []int64 // 0 for a rule that allows it now
	boundaries  []int64
	isCounted   bool // then Rule is the one that is to be named, and there is no Boundary
}

func newModel() *model {
	return &model{
		logs:     map[timestamplog.LogID]*modelLog{},
		modelIDs: modelIDs{},
		allowed:  map[timestamplog.LogID][]allowedTime{},

		cancelled: map[timestamplog.Reservation]bool{},
	}
}

// decide answers q at now.
func (m *model) decide(now int64, q timestamplog.Request) answer {
	a := m.judge(now, q)
	if a.Allowed && !q.Peek && !a.Replayed {
		m.charge(now, a.ReservedAt, q)
	}
	switch {
	case a.Allowed || q.Peek:
	case q.Options.CountRefused:
		a = m.countRefused(now, q)
	case q.ChargeAlways:
		a = m.chargeRefused(now, q, a)
	}
	a.States = m.states(now, q)
	return a
}

// countRefused logs a refused request and returns the answer after that.
func (m *model) countRefused(now int64, q timestamplog.Request) answer {
	counted := q
	counted.Cost = min(q.Cost, q.Retention.Entries)
	if counted.Cost > 0 {
		m.push(now, now, counted)
	}
	return m.judgeAfter(now, q)
}

// chargeRefused charges a request that was answered a, and was refused by itself or
// with others, the largest cost that is allowed. It returns the answer after that.
func (m *model) chargeRefused(now int64, q timestamplog.Request, a answer) answer {
	charged := q
	charged.ID = ""
	if a.Allowed {
		m.charge(now, now, charged)
		return a
	}
	if q.Options.CountRefused {
		return m.countRefused(now, q)
	}
	times := timesOf(m.present(q.LogID, now))
	for ; charged.Cost > 0; charged.Cost-- {
		if fitsNow(times, now, charged) {
			m.charge(now, now, charged)
			break
		}
	}
	return m.judgeAfter(now, q)
}

// judgeAfter returns a refusal's waits when the refused request has been counted.
func (m *model) judgeAfter(now int64, q timestamplog.Request) answer {
	q.Peek, q.ID = true, ""
	return m.judge(now, q)
}

// judge is a model that can decide requests alone or together.
type judge interface {
	judge(now int64, q timestamplog.Request) answer
	chargeRefused(now int64, q timestamplog.Request, a answer) answer
	charge(now, reservation int64, q timestamplog.Request)
	states(now int64, q timestamplog.Request) []timestamplog.RuleState
}

// decideAll answers requests about different logs at now as one.
func decideAll(m judge, now int64, requests []timestamplog.Request) []answer {
	requests = slices.Clone(requests)
	peek, maxWait := false, timestamplog.MaxWait
	for _, q := range requests {
		peek, maxWait = peek || q.Peek, min(maxWait, q.MaxWait)
	}
	answers := make([]answer, len(requests))
	allowed, reservation := true, now
	for i := range requests {
		requests[i].Peek, requests[i].MaxWait = peek, maxWait
		answers[i] = m.judge(now, requests[i])
		allowed = allowed && answers[i].Allowed
		reservation = max(reservation, answers[i].ReservedAt)
	}
	for i, q := range requests {
		switch {
		case answers[i].Replayed:
		case allowed:
			answers[i].ReservedAt = reservation
			if !peek && !q.Uncharged {
				m.charge(now, reservation, q)
			}
		case q.ChargeAlways && !peek:
			answers[i] = m.chargeRefused(now, q, answers[i])
		}
		answers[i].States = m.states(now, q)
	}
	return answers
}

// judge answers q and charges nothing.
func (m *model) judge(now int64, q timestamplog.Request) answer {
	a := answer{Result: timestamplog.Result{Allowed: true, Now: now, ReservedAt: now, Rule: -1}, reservation: now}
	if len(q.Rules) == 0 {
		return a
	}
	if !q.Peek {
		m.shiftTimes(q.LogID, now, q.Retention)
		if m.again(now, q, &a) {
			return a
		}
	}
	times := timesOf(m.present(q.LogID, now))
	a.reservation = endOf(times, now)
	for _, rule := range q.Rules {
		retry, boundary := waitOf(times, now, rule.Limit, rule.WindowMS(), q.Cost)
		a.retries, a.boundaries = append(a.retries, retry), append(a.boundaries, boundary)
		a.reservation = max(a.reservation, retry)
	}
	a.ReservedAt = a.reservation
	if a.RetryAt = retryOf(times, now, a.reservation, q); a.RetryAt > now {
		a.Allowed, a.ReservedAt = false, 0
	} else {
		a.RetryAt = 0
	}
	return a
}

// states returns what each rule has left, where q asks for it.
func (m *model) states(now int64, q timestamplog.Request) []timestamplog.RuleState {
	if !q.Detail || len(q.Rules) == 0 {
		return nil
	}
	times := timesOf(m.present(q.LogID, now))
	var states []timestamplog.RuleState
	for _, rule := range q.Rules {
		states = append(states, stateOf(times, now, rule, q.Cost))
	}
	return states
}

// present returns the entries of a log as of now, shifted back if they are too far
// ahead; none if the log has expired.
func (m *model) present(id timestamplog.LogID, now int64) []modelEntry {
	log := m.logs[id]
	if log == nil || m.expired(id, now) {
		return nil
	}
	by := log.clockSkew(now)
	entries := slices.Clone(log.entries)
	for i := range entries {
		entries[i].at -= by
	}
	return entries
}

func (l *modelLog) newest() int64 { return l.entries[len(l.entries)-1].at }

// clockSkew returns by how much the log must be shifted back.
func (l *modelLog) clockSkew(now int64) int64 {
	by := int64(0)
	for _, e := range l.entries {
		if e.isReservation {
			by = max(by, e.at-now-timestamplog.MaxWait)
		} else {
			by = max(by, e.at-now)
		}
	}
	return by
}

func (m *model) expired(id timestamplog.LogID, now int64) bool {
	log := m.logs[id]
	return log != nil && now-log.newest() >= log.window
}

// shiftTimes moves a log back where it is too far ahead.
func (m *model) shiftTimes(id timestamplog.LogID, now int64, keep rules.Retention) {
	log := m.logs[id]
	if log == nil {
		return
	}
	by := log.clockSkew(now)
	if by == 0 {
		return
	}
	for i := range log.entries {
		log.entries[i].at -= by
	}
	for i := range m.allowed[id] {
		m.allowed[id][i].at -= by
	}
	for name, known := range m.modelIDs[id] {
		m.modelIDs[id][name] = modelID{known.reservation - by, known.cost}
	}
	log.window = keep.Window.Milliseconds()
	log.pushed = now
}

// lapsed reports whether nothing of a log matters any more, or nothing but IDs.
func (m *model) lapsed(id timestamplog.LogID, now int64) bool {
	return m.logs[id] == nil && len(m.modelIDs[id]) > 0 || m.expired(id, now)
}

func (m *model) show(id timestamplog.LogID) any { return m.logs[id] }

// forgetUnnoticed forgets what was allowed and dropped where a clock that steps
// back now might not be noticed.
func (m *model) forgetUnnoticed(id timestamplog.LogID) {
	kept := map[int64]bool{}
	if log := m.logs[id]; log != nil {
		for _, e := range log.entries {
			if !e.isReservation && e.at == log.pushed {
				return
			}
			kept[e.at] = true
		}
	}
	m.allowed[id] = slices.DeleteFunc(m.allowed[id], func(a allowedTime) bool { return !kept[a.at] })
}

// charge logs q for its reservation and makes its ID known.
func (m *model) charge(now, reservation int64, q timestamplog.Request) {
	maps.DeleteFunc(m.cancelled, func(r timestamplog.Reservation, _ bool) bool { // it is made again
		return reservation > now && r.LogID == q.LogID && r.ID == q.ID && r.At == reservation && r.Cost == q.Cost
	})
	if len(q.Rules) == 0 {
		return
	}
	for range q.Cost {
		m.allowed[q.LogID] = append(m.allowed[q.LogID], allowedTime{reservation, q.Version, q.ID})
	}
	m.push(now, reservation, q)
	m.add(q, reservation)
}

// push adds q's entries and keeps what its retention keeps.
func (m *model) push(now, reservation int64, q timestamplog.Request) {
	entries := m.present(q.LogID, now)
	for range q.Cost {
		entries = append(entries, modelEntry{reservation, reservation > now})
	}
	window := q.Retention.Window.Milliseconds()
	entries = slices.DeleteFunc(entries, func(e modelEntry) bool { return now-e.at >= window })
	past := 0
	for _, e := range entries {
		if e.at <= now {
			past++
		}
	}
	entries = entries[max(0, past-q.Retention.Entries):]
	m.logs[q.LogID] = &modelLog{entries: entries, window: window, pushed: now}
}

// cancelReservation cancels a reservation at now and reports whether that freed room.
func (m *model) cancelReservation(now int64, reservation timestamplog.Reservation) bool {
	log := m.logs[reservation.LogID]
	if log == nil || m.expired(reservation.LogID, now) || log.clockSkew(now) > 0 {
		return false
	}
	if reservation.At > now && !m.knows(reservation) || reservation.At <= now && (now >= reservation.At+reservation.Counts || m.cancelled[reservation]) {
		return false
	}
	dropped := 0
	log.entries = slices.DeleteFunc(log.entries, func(e modelEntry) bool {
		if e.at != reservation.At || dropped == reservation.Cost {
			return false
		}
		dropped++
		return true
	})
	if dropped == 0 {
		return false
	}
	m.cancelled[reservation] = true
	if m.knows(reservation) {
		delete(m.modelIDs[reservation.LogID], reservation.ID)
	}
	if len(log.entries) == 0 {
		delete(m.logs, reservation.LogID)
	}
	m.allowed[reservation.LogID] = slices.DeleteFunc(m.allowed[reservation.LogID], func(a allowedTime) bool {
		return a.id == reservation.ID && a.at == reservation.At
	})
	return true
}

// times returns what Timestamps returns.
func (m *model) times(id timestamplog.LogID, now int64, limit int) []int64 {
	entries := m.present(id, now)
	if entries == nil {
		return nil
	}
	window := m.logs[id].window
	times := slices.DeleteFunc(timesOf(entries), func(t int64) bool { return now-t >= window })
	slices.Reverse(times)
	return times[:min(limit, len(times))]
}

// reset forgets a log and reports whether it had anything at now.
func (m *model) reset(id timestamplog.LogID, now int64) bool {
	existed := m.logs[id] != nil && !m.expired(id, now)
	delete(m.logs, id)
	delete(m.modelIDs, id)
	delete(m.allowed, id)
	return existed
}
