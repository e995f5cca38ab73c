package refusalcache

import (
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/timestamplog"
)

// entry holds the refusals of one log under one version of its policy.
type entry struct {
	id      timestamplog.LogID
	version int64
	full    answer // to a cost of 1: the log does not change while this answer is valid
	others  []answer
}

// maxOthers is the maximum number of costs above 1 whose answers are kept for one
// key.
const maxOthers = 4

// answerTo returns the answer to a cost, nil if it is not known. If a rule never allows
// anything, every cost gets the same answer, except for the waits of the other rules in States.
func (e *entry) answerTo(cost int, detail bool) *answer {
	if cost == e.full.cost || e.full.result.RetryAt == timestamplog.Never && !detail {
		return &e.full
	}
	for i := range e.others {
		if e.others[i].cost == cost {
			return &e.others[i]
		}
	}
	return nil
}

// keep stores the answer to a cost above 1.
func (e *entry) keep(a answer) {
	for i := range e.others {
		if e.others[i].cost == a.cost {
			e.others[i] = a
			return
		}
	}
	if len(e.others) < maxOthers {
		e.others = append(e.others, a)
	}
}

// answer is one refusal, with the times by the node's clock at which its request was sent and
// its answer came.
type answer struct {
	cost       int
	sent, came time.Time
	result     timestamplog.Result
}

// holds reports whether an answer is still valid that is valid until a given time of the log's
// clock.
func (a *answer) holds(until int64, now time.Time) bool {
	passed := now.Sub(a.sent) // at least the time since the log decided
	if passed < 0 || passed >= MaxAge {
		return false
	}
	return until == timestamplog.Never || passed+margin <= time.Duration(until-a.result.Now)*time.Millisecond
}

// isValidAt reports whether the cost is still refused.
func (a *answer) isValidAt(now time.Time) bool { return a.holds(a.result.RefusalValidUntil, now) }

// fill sets r to what the log would answer now. It reports false if that is not known.
func (a *answer) fill(detail bool, now time.Time, r *timestamplog.Result) bool {
	if !a.isValidAt(now) || detail && !a.holds(a.result.StatesValidUntil, now) {
		return false
	}
	passed := max(0, now.Sub(a.came)).Milliseconds() // at most the time since the log decided
	states := r.States[:0]
	*r = a.result
	r.FromCache, r.States, r.StatesValidUntil = true, states, 0
	r.Now += passed
	if !detail {
		return true
	}
	r.StatesValidUntil = a.result.StatesValidUntil
	r.States = slices.Grow(r.States, len(a.result.States))
	for _, state := range a.result.States {
		if state.RetryAfterMS != 0 && state.RetryAfterMS != timestamplog.Never {
			state.RetryAfterMS -= passed
		}
		state.ResetAfterMS = max(0, state.ResetAfterMS-passed)
		r.States = append(r.States, state)
	}
	return true
}
