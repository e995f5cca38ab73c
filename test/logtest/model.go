package logtest

import (
	"slices"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// model is a Log by brute force: it counts, where a real one looks up boundary
// entries, and searches for the end of a wait instead of computing it.
type model struct {
	logs map[timestamplog.LogID]*modelLog
	modelIDs
	// allowed has every logged time of a ref, also those that its log dropped,
	// but no reservation was cancelled, moved along with the log.
	allowed map[timestamplog.LogID][]allowedTime
}

type modelLog struct {
	entries []modelEntry // in order, the oldest first
	window  int64        // milliseconds after which the log expires
	pushed  int64        // when it was last pushed to
}

type modelEntry struct {
	at            int64
	isReservation bool // made for an instant that lay ahead
}

type allowedTime struct {
	at      int64
	version int64  // of the policy that allowed it
	id      string // of the request
}

// answer is a Result and, per rule, when that rule alone would let the request
// have its reservation and the time it waits for. Any rule that waits longest may be
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
	}
}

// decide answers q at now.
func (m *model) decide(now int64, q timestamplog.Request) answer {
	a := m.judge(now, q)
	if a.Allowed && !q.Peek && !a.Replayed {
		m.charge(now, a.ReservedAt, q)
	}
	if !a.Allowed && !q.Peek && q.Options.CountRefused && q.Retention.Entries > 0 {
		m.push(now, now, q)
		a = m.judgeAfter(now, q)
	}
	a.States = m.states(now, q)
	return a
}

// judgeAfter returns a refusal's waits when the refused request has been counted.
func (m *model) judgeAfter(now int64, q timestamplog.Request) answer {
	q.Peek, q.ID = true, ""
	return m.judge(now, q)
}

// asks is what can be decided alone or together.
type judge interface {
	judge(now int64, q timestamplog.Request) answer
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
		if allowed && !answers[i].Replayed {
			answers[i].ReservedAt = reservation
			if !peek {
				m.charge(now, reservation, q)
			}
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
		if reservation, known := m.again(now, q); known {
			a.ReservedAt, a.Replayed = reservation, true
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

// retryOf returns the earliest instant from now on at which q may have that
// reservation, trying all at which something changes.
func retryOf(times []int64, now, reservation int64, q timestamplog.Request) int64 {
	if reservation == timestamplog.Never {
		return reservation
	}
	for _, at := range slices.Sorted(slices.Values(append([]int64{now, reservation - q.MaxWait, reservation}, times...))) {
		ahead := 0
		for _, t := range times {
			if t > at {
				ahead++
			}
		}
		if at >= now && (reservation <= at || reservation-at <= q.MaxWait && ahead+q.Cost <= timestamplog.MaxReserved) {
			return at
		}
	}
	panic("logtest: a reservation that never comes")
}

func timesOf(entries []modelEntry) []int64 {
	times := make([]int64, len(entries))
	for i, e := range entries {
		times[i] = e.at
	}
	return times
}

// endOf returns now, or the newest of times where it lies ahead.
func endOf(times []int64, now int64) int64 {
	if len(times) == 0 {
		return now
	}
	return max(now, times[len(times)-1])
}

// waitOf returns the earliest instant from now on at which cost more fits into
// the window that ends there, 0 where it is now, and the entry that has then
// just left it.
func waitOf(times []int64, now int64, limit int, window int64, cost int) (retry, boundary int64) {
	if cost > limit {
		return timestamplog.Never, 0
	}
	if count(times, now, window)+cost <= limit {
		return 0, 0
	}
	for _, t := range times { // in order, so the first that fits is the earliest
		if t+window > now && count(times, t+window, window)+cost <= limit {
			return t + window, t
		}
	}
	panic("logtest: a limit that is never free although it is not 0")
}

// count returns how many times lie in the half-open window that ends at end, or
// ahead of it.
func count(times []int64, end, window int64) int {
	n := 0
	for _, t := range times {
		if end-t < window {
			n++
		}
	}
	return n
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

func stateOf(times []int64, now int64, rule rules.Rule, cost int) timestamplog.RuleState {
	end := endOf(times, now)
	state := timestamplog.RuleState{Remaining: max(0, rule.Limit-count(times, end, rule.WindowMS()))}
	if retry, _ := waitOf(times, now, rule.Limit, rule.WindowMS(), cost); retry == timestamplog.Never {
		state.RetryAfterMS = retry
	} else {
		state.RetryAfterMS = max(end, retry) - now
	}
	if rule.Limit > 0 {
		state.ResetAfterMS = resetOf(times, now, rule.WindowMS()) - now
	}
	return state
}

// resetOf returns the earliest instant from now on at which no time lies in the
// window that ends there, trying all at which one leaves it.
func resetOf(times []int64, now, window int64) int64 {
	if count(times, now, window) == 0 {
		return now
	}
	for _, t := range times { // in order
		if at := t + window; at > now && count(times, at, window) == 0 {
			return at
		}
	}
	panic("logtest: a window that never empties")
}

// present returns the entries of a log as they look at now, moved back where
// they lie too far ahead; none where the log has expired.
func (m *model) present(ref timestamplog.LogID, now int64) []modelEntry {
	log := m.logs[ref]
	if log == nil || m.expired(ref, now) {
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

// clockSkew returns by how much the log must be moved back.
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

func (m *model) expired(ref timestamplog.LogID, now int64) bool {
	log := m.logs[ref]
	return log != nil && now-log.newest() >= log.window
}

// shiftTimes moves a log back where it lies too far ahead.
func (m *model) shiftTimes(ref timestamplog.LogID, now int64, keep rules.Retention) {
	log := m.logs[ref]
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
	for i := range m.allowed[ref] {
		m.allowed[ref][i].at -= by
	}
	for name, id := range m.modelIDs[ref] {
		m.modelIDs[ref][name] = modelID{id.reservation - by, id.cost}
	}
	log.window = keep.Window.Milliseconds()
	log.pushed = now
}

// lapsed reports whether nothing of a ref matters any more, or nothing but IDs.
func (m *model) lapsed(ref timestamplog.LogID, now int64) bool {
	return m.logs[ref] == nil && len(m.modelIDs[ref]) > 0 || m.expired(ref, now)
}

func (m *model) show(ref timestamplog.LogID) any { return m.logs[ref] }

// forgetUnnoticed forgets what was allowed and dropped where a clock that steps
// back now might not be noticed.
func (m *model) forgetUnnoticed(ref timestamplog.LogID) {
	kept := map[int64]bool{}
	if log := m.logs[ref]; log != nil {
		for _, e := range log.entries {
			if !e.isReservation && e.at == log.pushed {
				return
			}
			kept[e.at] = true
		}
	}
	m.allowed[ref] = slices.DeleteFunc(m.allowed[ref], func(a allowedTime) bool { return !kept[a.at] })
}

// charge logs q for its reservation and makes its ID known.
func (m *model) charge(now, reservation int64, q timestamplog.Request) {
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
	if !m.knows(reservation) || reservation.At <= now || log == nil || log.clockSkew(now) > 0 {
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
	delete(m.modelIDs[reservation.LogID], reservation.ID)
	if len(log.entries) == 0 {
		delete(m.logs, reservation.LogID)
	}
	m.allowed[reservation.LogID] = slices.DeleteFunc(m.allowed[reservation.LogID], func(a allowedTime) bool {
		return a.id == reservation.ID && a.at == reservation.At
	})
	return true
}

// times returns what Times returns.
func (m *model) times(ref timestamplog.LogID, now int64, limit int) []int64 {
	entries := m.present(ref, now)
	if entries == nil {
		return nil
	}
	window := m.logs[ref].window
	times := slices.DeleteFunc(timesOf(entries), func(t int64) bool { return now-t >= window })
	slices.Reverse(times)
	return times[:min(limit, len(times))]
}

// reset forgets a log and reports whether it held anything at now.
func (m *model) reset(ref timestamplog.LogID, now int64) bool {
	held := m.logs[ref] != nil && !m.expired(ref, now)
	delete(m.logs, ref)
	delete(m.modelIDs, ref)
	delete(m.allowed, ref)
	return held
}
