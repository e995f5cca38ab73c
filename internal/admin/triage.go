package admin

import (
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/offences"
)

// selectState limits a query to the keys of its state. The returned map contains the number of
// keys of each state after the query has run; it is nil if they are not requested.
func selectState(q *offences.Query, known *blocks.Set, now time.Time) (map[offences.Triage]int64, error) {
	switch q.State {
	case "", offences.TriageOpen, offences.TriageBlocked, offences.TriageExempt:
	default:
		return nil, fault.Field("state", "must be open, blocked or exempt")
	}
	if q.State == "" && !q.CountStates {
		return nil, nil
	}
	wanted := q.State
	counts := map[offences.Triage]int64{offences.TriageOpen: 0, offences.TriageBlocked: 0, offences.TriageExempt: 0}
	q.Keep = func(text string) bool {
		state := offences.TriageOpen
		if k, err := offences.ParseKey(text); err == nil {
			switch m := known.Match(k, now); {
			case m.Exemption != nil:
				state = offences.TriageExempt
			case m.Block != nil:
				state = offences.TriageBlocked
			}
		}
		counts[state]++
		return wanted == "" || wanted == state
	}
	return counts, nil
}
