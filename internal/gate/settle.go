package gate

import (
	"slices"
	"time"
)

// gravity orders the outcomes; a higher value is graver.
var gravity = map[Outcome]int{Allowed: 0, Challenged: 1, Limited: 2, Unavailable: 3, Blocked: 4}

func gravest(decisions []Decision) Outcome {
	worst := Allowed
	for i := range decisions {
		for _, o := range [...]Outcome{decisions[i].Outcome, gravest(decisions[i].Additional)} {
			if gravity[o] > gravity[worst] {
				worst = o
			}
		}
	}
	return worst
}

// settle moves into d the decision, of d and its additional decisions, that refuses most gravely
// or makes the caller wait longest. If d's policy limits nothing, d takes the first additional
// decision instead, except that of a policy that reports charge and that allows at once: the
// check used nothing of it. d also takes the first shadow decision, or one that refuses if its
// own allows.
func (d *Decision) settle() {
	worst, replayed := -1, d.Replayed
	for i := range d.Additional {
		a := &d.Additional[i]
		if d.Degraded == "" {
			d.Degraded = a.Degraded
		}
		replayed = replayed || a.Replayed
		if d.Shadow == nil || d.Shadow.Outcome == Allowed && a.Shadow != nil && a.Shadow.Outcome != Allowed {
			d.Shadow, a.Shadow = a.Shadow, d.Shadow
		}
		than := d
		if worst >= 0 {
			than = &d.Additional[worst]
		}
		charged := a.Policy != nil && (!a.Policy.IsReported() || a.Delay > 0)
		if a.Policy != nil && (charged && !limits(than.Policy) || a.isWorse(than)) {
			worst = i
		}
	}
	if worst >= 0 {
		a := &d.Additional[worst]
		d.Policy, a.Policy = a.Policy, d.Policy
		d.Outcome, a.Outcome = a.Outcome, d.Outcome
		d.Answer, a.Answer = a.Answer, d.Answer
		d.Block, a.Block = a.Block, d.Block
		d.OwnLimit, a.OwnLimit = a.OwnLimit, d.OwnLimit
		d.Check.Cost, a.Check.Cost = a.Check.Cost, d.Check.Cost
	}
	d.Replayed = replayed
	d.Additional = slices.DeleteFunc(d.Additional, func(a Decision) bool { return a.Policy == nil && a.Shadow == nil })
}

// isWorse reports whether d refuses more gravely than other, or equally but for longer. Of two
// that allow, the one with the later reservation is worse: the policies of a request have one
// common reservation, but one that charges nothing has none, and one that replays keeps an
// earlier one.
func (d *Decision) isWorse(other *Decision) bool {
	switch {
	case gravity[d.Outcome] != gravity[other.Outcome]:
		return gravity[d.Outcome] > gravity[other.Outcome]
	case d.Outcome == Allowed:
		return d.Delay > other.Delay || d.Delay == other.Delay && d.ReservedAt.After(other.ReservedAt)
	}
	return d.Answer.isLonger(&other.Answer)
}

// withdraw changes d, which was decided as one of several, to a decision that was charged
// nothing. Of the additional decisions it keeps those that refuse, and of the shadow policies the
// traps, which always refuse.
func (d *Decision) withdraw() {
	d.Delay, d.ReservedAt = 0, time.Time{}
	if d.Shadow != nil && !d.Shadow.Policy.IsTrap() {
		d.Shadow = nil
	}
	d.Additional = slices.DeleteFunc(d.Additional, func(a Decision) bool {
		return (a.Policy == nil || a.Outcome == Allowed) && (a.Shadow == nil || !a.Shadow.Policy.IsTrap())
	})
	for i := range d.Additional {
		if a := &d.Additional[i]; a.Outcome == Allowed {
			a.Policy = nil
		}
	}
}
