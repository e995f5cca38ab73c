package checkjson

import (
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// RuleStates returns the remaining quota of each rule of p as the API shows it, nil if it is
// unknown.
func RuleStates(p *rules.Policy, states []gate.RuleState) wire.RuleStates {
	if p == nil || len(states) != len(p.Rules) {
		return nil
	}
	all := make(wire.RuleStates, len(states))
	for i, state := range states {
		all[i] = wire.RuleState{
			Rule: p.Rules[i].String(), Limit: p.Rules[i].Limit, WindowMS: p.Rules[i].WindowMS(),
			Remaining: state.Remaining, ResetAfterMS: state.ResetAfterMS,
		}
		if state.RetryAfterMS != gate.Never {
			all[i].RetryAfterMS = &state.RetryAfterMS
		}
	}
	return all
}
