package logtest

import (
	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// counterModel is a Log of counters: the engine of package algorithms, to which
// every Log is held number by number, and around it what a Log adds.
type counterModel struct {
	kept map[timestamplog.Ref]*keptState
	modelIDs
}

type keptState struct {
	algorithms.State
	expires int64 // Unix milliseconds
}

func newCounterModel() *counterModel {
	return &counterModel{kept: map[timestamplog.Ref]*keptState{}, modelIDs: modelIDs{}}
}

func stackOf(q timestamplog.Request) *algorithms.Stack {
	return algorithms.NewStack(q.Algorithm, q.Rules.Counted(q.Options))
}

func questionOf(now int64, q timestamplog.Request) algorithms.Question {
	return algorithms.Question{Now: now, Cost: int64(q.Cost), MaxWait: q.MaxWait, Peek: q.Peek, ID: q.ID}
}

// state returns a copy of what is kept of a ref.
func (m *counterModel) state(ref timestamplog.Ref, now int64) algorithms.State {
	if kept := m.kept[ref]; kept != nil && now < kept.expires {
		return kept.Clone()
	}
	return algorithms.State{}
}

// keep keeps a state for as long as it says.
func (m *counterModel) keep(now int64, q timestamplog.Request, state algorithms.State) {
	delete(m.kept, q.Ref)
	if lasts := stackOf(q).Lasts(&state, now); lasts > 0 {
		m.kept[q.Ref] = &keptState{state, now + lasts}
	}
}

func (m *counterModel) decide(now int64, q timestamplog.Request) answer {
	a := m.judge(now, q)
	if a.Allowed && !q.Peek && !a.Repeated {
		m.charge(now, a.Turn, q)
	}
	a.States = m.states(now, q)
	return a
}

func (m *counterModel) judge(now int64, q timestamplog.Request) answer {
	a := answer{Result: timestamplog.Result{Allowed: true, Now: now, Turn: now, Rule: -1}, isCounted: true}
	if len(q.Rules) == 0 {
		return a
	}
	state := m.state(q.Ref, now)
	verdict := stackOf(q).Ask(&state, questionOf(now, q))
	if verdict.Changed && !q.Peek {
		m.keep(now, q, state)
	}
	if turn, known := m.again(now, q); known {
		a.Turn, a.Repeated = turn, true
		return a
	}
	a.Allowed, a.Turn, a.RetryAt, a.Rule = verdict.Allowed, verdict.Turn, verdict.RetryAt, verdict.Rule
	if !a.Allowed {
		a.Turn = 0
	}
	return a
}

func (m *counterModel) charge(now, turn int64, q timestamplog.Request) {
	if len(q.Rules) == 0 {
		return
	}
	stack, state := stackOf(q), m.state(q.Ref, now)
	stack.Ask(&state, questionOf(now, q))
	stack.Take(&state, questionOf(now, q), turn)
	m.keep(now, q, state)
	m.add(q, turn)
}

func (m *counterModel) states(now int64, q timestamplog.Request) []timestamplog.RuleState {
	if !q.Detail || len(q.Rules) == 0 {
		return nil
	}
	state := m.state(q.Ref, now)
	var states []timestamplog.RuleState
	for _, has := range stackOf(q).Remaining(nil, &state, now, int64(q.Cost)) {
		states = append(states, timestamplog.RuleState{Remaining: int(has.Left), ResetMS: has.Wait})
	}
	return states
}

func (m *counterModel) giveBack(now int64, turn timestamplog.Turn) bool {
	kept := m.kept[turn.Ref]
	if kept == nil || now >= kept.expires || !m.knows(turn) || !kept.GiveBack(now, turn.At, turn.ID) {
		return false
	}
	delete(m.modelIDs[turn.Ref], turn.ID)
	return true
}

// times returns none: a counter keeps no times.
func (m *counterModel) times(timestamplog.Ref, int64, int) []int64 { return nil }

func (m *counterModel) reset(ref timestamplog.Ref, now int64) bool {
	held := m.kept[ref] != nil && now < m.kept[ref].expires
	delete(m.kept, ref)
	delete(m.modelIDs, ref)
	return held
}

func (m *counterModel) expired(ref timestamplog.Ref, now int64) bool {
	return m.kept[ref] != nil && now >= m.kept[ref].expires
}

func (m *counterModel) lapsed(ref timestamplog.Ref, now int64) bool {
	return m.kept[ref] == nil && len(m.modelIDs[ref]) > 0 || m.expired(ref, now)
}

// forgetUnnoticed does nothing: what a counter lets pass is its own business.
func (m *counterModel) forgetUnnoticed(timestamplog.Ref) {}

func (m *counterModel) show(ref timestamplog.Ref) any { return m.kept[ref] }
