package logtest

import (
	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// counterModel is a Log of counters: the engine of package algorithms, with which
// every Log is compared number by number, and around it what a Log adds.
type counterModel struct {
	kept map[timestamplog.LogID]*keptState
	modelIDs
}

type keptState struct {
	algorithms.State
	expires int64 // Unix milliseconds
}

func newCounterModel() *counterModel {
	return &counterModel{kept: map[timestamplog.LogID]*keptState{}, modelIDs: modelIDs{}}
}

func stackOf(q timestamplog.Request) *algorithms.Stack {
	return algorithms.NewStack(q.Algorithm, q.Rules.Counted(q.Options))
}

func queryOf(now int64, q timestamplog.Request) algorithms.Query {
	return algorithms.Query{Now: now, Cost: int64(q.Cost), MaxWait: q.MaxWait, Peek: q.Peek, ID: q.ID}
}

// state returns a copy of what is kept of a log.
func (m *counterModel) state(id timestamplog.LogID, now int64) algorithms.State {
	if kept := m.kept[id]; kept != nil && now < kept.expires {
		return kept.Clone()
	}
	return algorithms.State{}
}

// keep stores a state until its stack no longer needs it.
func (m *counterModel) keep(now int64, q timestamplog.Request, state algorithms.State) {
	delete(m.kept, q.LogID)
	if ttl := stackOf(q).TTL(&state, now); ttl > 0 {
		m.kept[q.LogID] = &keptState{state, now + ttl}
	}
}

func (m *counterModel) decide(now int64, q timestamplog.Request) answer {
	a := m.judge(now, q)
	switch {
	case q.Peek || a.Replayed:
	case a.Allowed:
		m.charge(now, a.ReservedAt, q)
	case q.ChargeAlways:
		a = m.chargeRefused(now, q, a)
	}
	a.States = m.states(now, q)
	return a
}

// chargeRefused charges a request that was answered a, and was refused by itself or
// with others, repeatedly the largest part that is allowed, until none is or all
// is charged; a queue takes one part. It returns the answer after that.
func (m *counterModel) chargeRefused(now int64, q timestamplog.Request, a answer) answer {
	part := q
	part.ID = ""
	if a.Allowed {
		m.charge(now, now, part)
		return a
	}
	for left := q.Cost; left > 0 && part.Cost > 0; {
		if part.Cost = min(part.Cost, left); m.judge(now, part).Allowed {
			m.charge(now, now, part)
			if left -= part.Cost; q.Options.Variant == algorithms.VariantQueue {
				break
			}
			continue
		}
		part.Cost--
	}
	q.Peek, q.ID = true, ""
	return m.judge(now, q)
}

func (m *counterModel) judge(now int64, q timestamplog.Request) answer {
	a := answer{Result: timestamplog.Result{Allowed: true, Now: now, ReservedAt: now, Rule: -1}, isCounted: true}
	if len(q.Rules) == 0 {
		return a
	}
	state := m.state(q.LogID, now)
	query := queryOf(now, q)
	decision := stackOf(q).Ask(&state, &query)
	if decision.Changed && !q.Peek {
		m.keep(now, q, state)
	}
	if m.again(now, q, &a) {
		return a
	}
	a.Allowed, a.ReservedAt, a.RetryAt, a.Rule = decision.Allowed, decision.AllowedAt, decision.RetryAt, decision.Rule
	if !a.Allowed {
		a.ReservedAt = 0
	}
	return a
}

func (m *counterModel) charge(now, reservation int64, q timestamplog.Request) {
	if len(q.Rules) == 0 {
		return
	}
	stack, state, query := stackOf(q), m.state(q.LogID, now), queryOf(now, q)
	stack.Ask(&state, &query)
	stack.Add(&state, &query, reservation)
	m.keep(now, q, state)
	m.add(q, reservation)
}

func (m *counterModel) states(now int64, q timestamplog.Request) []timestamplog.RuleState {
	if !q.Detail || len(q.Rules) == 0 {
		return nil
	}
	state := m.state(q.LogID, now)
	var states []timestamplog.RuleState
	for _, has := range stackOf(q).Remaining(nil, &state, now, int64(q.Cost)) {
		states = append(states, timestamplog.RuleState{Remaining: int(has.Amount), RetryAfterMS: has.Wait, ResetAfterMS: has.Reset})
	}
	return states
}

func (m *counterModel) cancelReservation(now int64, reservation timestamplog.Reservation) bool {
	kept := m.kept[reservation.LogID]
	if kept == nil || now >= kept.expires || !m.knows(reservation) || !kept.Cancel(now, reservation.At, reservation.ID) {
		return false
	}
	delete(m.modelIDs[reservation.LogID], reservation.ID)
	return true
}

// times returns none: a counter keeps no times.
func (m *counterModel) times(timestamplog.LogID, int64, int) []int64 { return nil }

func (m *counterModel) reset(id timestamplog.LogID, now int64) bool {
	held := m.kept[id] != nil && now < m.kept[id].expires
	delete(m.kept, id)
	delete(m.modelIDs, id)
	return held
}

func (m *counterModel) expired(id timestamplog.LogID, now int64) bool {
	return m.kept[id] != nil && now >= m.kept[id].expires
}

func (m *counterModel) lapsed(id timestamplog.LogID, now int64) bool {
	return m.kept[id] == nil && len(m.modelIDs[id]) > 0 || m.expired(id, now)
}

// forgetUnnoticed does nothing: a counter lists no allowed requests.
func (m *counterModel) forgetUnnoticed(timestamplog.LogID) {}

func (m *counterModel) show(id timestamplog.LogID) any { return m.kept[id] }
