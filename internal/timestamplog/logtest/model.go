package logtest

import (
	"slices"

	"github.com/stint-dev/stint/internal/timestamplog"
)

// model is a Log by brute force: it counts, where a real one looks up boundary
// entries, and searches for the end of a wait instead of computing it.
type model struct {
	logs map[timestamplog.Ref]*modelLog
	// allowed has every logged time of a ref, also those that its log dropped,
	// moved along with the log.
	allowed map[timestamplog.Ref][]allowedTime
}

type modelLog struct {
	times  []int64 // in order, the oldest first
	window int64   // milliseconds after which the log expires
}

type allowedTime struct {
	at      int64
	version int64 // of the policy that allowed it
}

// answer is a Result and, per rule, when that rule alone would allow the
// request and the time it waits for. Any rule that waits longest may be named.
type answer struct {
	timestamplog.Result
	retries    []int64 // 0 for a rule that allows it now
	boundaries []int64
}

func newModel() *model {
	return &model{
		logs:    map[timestamplog.Ref]*modelLog{},
		allowed: map[timestamplog.Ref][]allowedTime{},
	}
}

// decide answers q at now.
func (m *model) decide(now int64, q timestamplog.Request) answer {
	a := answer{Result: timestamplog.Result{Allowed: true, Now: now, Rule: -1}}
	if len(q.Rules) == 0 {
		return a
	}
	window := q.Retention.Window.Milliseconds()
	times := m.present(q.Ref, now)
	if !q.Peek {
		m.moveBack(q.Ref, now, window)
	}
	for _, rule := range q.Rules {
		retry, boundary := waitOf(times, now, rule.Limit, rule.WindowMS(), q.Cost)
		a.retries, a.boundaries = append(a.retries, retry), append(a.boundaries, boundary)
		a.RetryAt = max(a.RetryAt, retry)
	}
	a.Allowed = a.RetryAt == 0
	if a.Allowed && !q.Peek {
		times = m.push(q, now, times)
	}
	if q.Detail {
		for _, rule := range q.Rules {
			a.States = append(a.States, stateOf(times, now, rule.Limit, rule.WindowMS(), q.Cost))
		}
	}
	return a
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

// count returns how many times lie in the half-open window that ends at end.
func count(times []int64, end, window int64) int {
	n := 0
	for _, t := range times {
		if end-t < window {
			n++
		}
	}
	return n
}

func stateOf(times []int64, now int64, limit int, window int64, cost int) timestamplog.RuleState {
	state := timestamplog.RuleState{Remaining: max(0, limit-count(times, now, window))}
	switch retry, _ := waitOf(times, now, limit, window, cost); retry {
	case 0:
	case timestamplog.Never:
		state.ResetMS = timestamplog.Never
	default:
		state.ResetMS = retry - now
	}
	return state
}

// present returns the times of a log as they look at now, moved back where the
// newest lies ahead; none where the log has expired.
func (m *model) present(ref timestamplog.Ref, now int64) []int64 {
	log := m.logs[ref]
	if log == nil || m.expired(ref, now) {
		return nil
	}
	ahead := max(0, log.newest()-now)
	times := slices.Clone(log.times)
	for i := range times {
		times[i] -= ahead
	}
	return times
}

func (l *modelLog) newest() int64 { return l.times[len(l.times)-1] }

func (m *model) expired(ref timestamplog.Ref, now int64) bool {
	log := m.logs[ref]
	return log != nil && now-log.newest() >= log.window
}

// moveBack makes the newest entry now where it lies ahead.
func (m *model) moveBack(ref timestamplog.Ref, now, window int64) {
	log := m.logs[ref]
	if log == nil || log.newest() <= now {
		return
	}
	ahead := log.newest() - now
	for i := range log.times {
		log.times[i] -= ahead
	}
	for i := range m.allowed[ref] {
		m.allowed[ref][i].at -= ahead
	}
	log.window = window
}

// push logs q at now on top of times and keeps what its retention keeps.
func (m *model) push(q timestamplog.Request, now int64, times []int64) []int64 {
	for range q.Cost {
		times = append(times, now)
		m.allowed[q.Ref] = append(m.allowed[q.Ref], allowedTime{now, q.Version})
	}
	window := q.Retention.Window.Milliseconds()
	times = slices.DeleteFunc(times, func(t int64) bool { return now-t >= window })
	times = times[max(0, len(times)-q.Retention.Entries):]
	m.logs[q.Ref] = &modelLog{times: times, window: window}
	return times
}

// times returns what Times returns.
func (m *model) times(ref timestamplog.Ref, now int64, limit int) []int64 {
	times := m.present(ref, now)
	if times == nil {
		return nil
	}
	window := m.logs[ref].window
	times = slices.DeleteFunc(times, func(t int64) bool { return now-t >= window })
	slices.Reverse(times)
	return times[:min(limit, len(times))]
}

// reset forgets a log and reports whether it held anything at now.
func (m *model) reset(ref timestamplog.Ref, now int64) bool {
	held := m.logs[ref] != nil && !m.expired(ref, now)
	delete(m.logs, ref)
	delete(m.allowed, ref)
	return held
}
