package checkjson

import (
	"github.com/stint-dev/stint/internal/challenge"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/wire"
)

// wireDecision returns a decision as its wire type: the plain version of
// AppendDecision, which json.Marshal writes.
func wireDecision(d *gate.Decision) wire.Decision {
	a := wireAnswer(d.Policy, &d.Answer)
	out := wire.Decision{
		ID: wire.NullString(d.ID.String()), Decision: string(d.Plain()), Allowed: d.Outcome == gate.Allowed, Key: d.Check.Key.String(),
		Degraded: d.Degraded != "", DegradedReason: d.Degraded, RetryAfterMS: a.RetryAfterMS, RetryAt: a.RetryAt, Rule: a.Rule, Rules: a.Rules,
		Replayed: d.Replayed,
	}
	if d.Policy != nil {
		out.Conditional = d.Policy.IsConditional()
		out.OwnLimit = d.OwnLimit != nil
		out.Policy, out.Mode = wire.NullString(d.Policy.Name), wire.NullString(d.Policy.Mode)
	}
	if d.Shadow != nil {
		shadow := wireAnswer(d.Shadow.Policy, &d.Shadow.Answer)
		shadow.ID, shadow.Decision, shadow.Policy = wire.NullString(d.Shadow.ID.String()), string(d.Shadow.Plain()), d.Shadow.Policy.Name
		shadow.Allowed = d.Shadow.Outcome == gate.Allowed
		out.Shadow = &shadow
	}
	if d.Check.MaxWait > 0 {
		out.Waiting = &wire.Waiting{DelayMS: d.Delay.Milliseconds()}
		if !d.ReservedAt.IsZero() {
			out.Reservation = &wire.Reservation{At: wire.At(d.ReservedAt), Handle: d.Handle}
		}
	}
	if d.Hold.Handle != "" {
		out.Hold = &wire.Hold{Handle: d.Hold.Handle, ExpiresAt: wire.At(d.Hold.Expires)}
	}
	out.TooManyHolds = d.TooManyHolds
	b, e := d.Block, d.Exemption
	switch {
	case b != nil && e == nil:
		out.Block = &wire.DecidedBlock{ID: b.ID, Pattern: b.Pattern.String(), Reason: b.Reason, Source: string(b.Source), ExpiresAt: wire.At(b.Expires)}
	case b != nil:
		out.Warnings = []string{"The block " + b.ID + " of " + b.Pattern.String() + " would refuse this key, but the exemption " +
			e.ID + " of " + e.Pattern.String() + " takes precedence."}
	}
	if d.Outcome == gate.Challenged {
		out.Reason, out.Challenge = "challenged", challenge.Path
	}
	if e != nil {
		out.Exemption = &wire.DecidedExemption{ID: e.ID, Pattern: e.Pattern.String(), Reason: e.Reason, ExpiresAt: wire.At(e.Expires)}
	}
	return out
}

// wireAnswer returns the members that decisions and shadows share.
func wireAnswer(p *rules.Policy, a *gate.Answer) wire.Shadow {
	out := wire.Shadow{RetryAt: wire.At(a.RetryAt)}
	if !a.Never {
		wait := RetryAfterMS(a)
		out.RetryAfterMS = &wait
	}
	if p == nil {
		return out
	}
	if a.Rule >= 0 {
		out.Rule = wire.NullString(p.Rules[a.Rule].String())
	}
	for i, state := range a.States {
		r := p.Rules[i]
		row := wire.RuleState{
			Rule: r.String(), Limit: r.Limit, WindowMS: r.WindowMS(), Remaining: state.Remaining, ResetAfterMS: state.ResetAfterMS,
		}
		if state.RetryAfterMS != timestamplog.Never {
			row.RetryAfterMS = &state.RetryAfterMS
		}
		out.Rules = append(out.Rules, row)
	}
	return out
}
