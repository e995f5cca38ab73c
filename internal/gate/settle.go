package gate

import "time"

// gravity orders the outcomes; a higher value is graver.
func (o Outcome) gravity() int {
	switch o {
	case Challenged:
		return 1
	case Limited:
		return 2
	case Unavailable:
		return 3
	case Blocked:
		return 4
	}
	return 0
}

func gravest(decisions []Decision) Outcome {
	worst := Allowed
	for i := range decisions {
		d := &decisions[i]
		for _, o := range [...]Outcome{d.Outcome, gravest(d.Additional)} {
			if o.gravity() > worst.gravity() {
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
	d.keepAdditional(func(a *Decision) bool { return a.Policy != nil || a.Shadow != nil })
}

// keepAdditional removes the additional decisions for which keeps is false.
func (d *Decision) keepAdditional(keeps func(*Decision) bool) {
	kept := d.Additional[:0]
	for i := range d.Additional {
		if a := &d.Additional[i]; keeps(a) {
			kept = append(kept, *a)
		}
	}
	clear(d.Additional[len(kept):])
	d.Additional = kept
}

// isWorse reports whether d refuses more gravely than other, or equally but for longer. Of two
// that allow, the one with the later reservation is worse: the policies of a request have one
// common reservation, but one that charges nothing has none, and one that replays keeps an
// earlier one.
func (d *Decision) isWorse(other *Decision) bool {
	switch {
	case d.Outcome.gravity() != other.Outcome.gravity():
		return d.Outcome.gravity() > other.Outcome.gravity()
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
	d.keepAdditional(func(a *Decision) bool {
		return a.Policy != nil && a.Outcome != Allowed || a.Shadow != nil && a.Shadow.Policy.IsTrap()
	})
	for i := range d.Additional {
		if a := &d.Additional[i]; a.Outcome == Allowed {
			a.Policy = nil
		}
	}
}
