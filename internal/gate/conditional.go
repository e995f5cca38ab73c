package gate

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/supervise"
)

// addAdditional sets d.Additional, which stays nil if no policy with conditions or an outcome
// applies and no further key counts. Traps and blocks of further keys are decided at once.
func (d *Decision) addAdditional(by *applying) error {
	var room [8]additional
	for _, with := range by.appendAsked(room[:0], d.Check.Request) {
		outcome, answer := Allowed, Answer{At: d.At, Rule: -1, Derived: with.derived}
		switch p := with.policy; {
		case with.block != nil:
			outcome, answer.RetryAt, answer.Never = Blocked, with.block.Expires, with.block.Expires.IsZero()
		case with.derived == nil && p.IsTrap():
			outcome, answer.Never, answer.Rule = Limited, true, refusingRule(p)
		}
		var a Decision
		a.begin(&d.Check, d.At)
		a.IsAdditional = true
		if with.policy.Mode == rules.Shadow {
			a.Shadow = &Shadow{Outcome: outcome, Policy: with.policy, Answer: answer}
		} else {
			a.Policy, a.Outcome, a.Answer, a.Block = with.policy, outcome, answer, with.block
			if err := a.checkAskable(); err != nil {
				return err
			}
		}
		d.Additional = append(d.Additional, a)
	}
	return nil
}

// asksOutcomesFirst reports whether the policies with an outcome are asked before the key's own,
// instead of together with it. The check charges them nothing, so both orders charge the same,
// and the log answers single requests three times as fast as requests that it must decide as one.
// A report that arrives between the two calls may be counted as if it came after the check.
func (d *Decision) asksOutcomesFirst() bool {
	if d.Additional == nil || d.Outcome != Allowed || d.Check.MaxWait > 0 || d.Check.ChargeAlways {
		return false
	}
	return !slices.ContainsFunc(d.Additional, func(a Decision) bool { return a.Policy != nil && !a.Policy.IsReported() })
}

// queueCheck queues the requests of a prepared decision, which has index i in those of the call.
func (s *scratch) queueCheck(i int, d *Decision) {
	switch {
	case d.asksOutcomesFirst():
		s.preceded = append(s.preceded, i)
		for j := range d.Additional {
			s.queueEnforcing(&d.Additional[j])
		}
	case d.Additional != nil:
		s.combined = append(s.combined, i)
	default:
		s.queueEnforcing(d)
		if d.Shadow != nil {
			s.queueRequest(d, d.Shadow.Policy, true)
		}
	}
}

// askQueued decides what was queued in s.
func (s *scratch) askQueued(ctx context.Context, g *Gate, decisions []Decision, errs []error) {
	s.refuseWaits()
	g.askLog(ctx, s)
	if len(s.preceded) > 0 {
		g.askPreceded(ctx, s, decisions)
	}
	if len(s.combined) > 0 {
		g.decideEach(ctx, s, decisions, errs)
	}
}

// askPreceded asks the own policies of the checks in s.preceded, whose policies with an outcome
// have answered, and settles these checks. It asks also if the log did not answer about these: their
// further keys may be on another server, and what fails about one log may work for another.
func (g *Gate) askPreceded(ctx context.Context, s *scratch, decisions []Decision) {
	s.requests, s.asked = s.requests[:0], s.asked[:0]
	for _, i := range s.preceded {
		s.queueOwn(&decisions[i])
	}
	g.askLog(ctx, s)
	for _, i := range s.preceded {
		d := &decisions[i]
		refused := gravest(d.Additional) != Allowed
		if d.settle(); refused {
			d.withdraw()
		}
	}
}

// queueOwn queues the requests of d's own policy and of its shadow policies. The policies with an
// outcome must have answered.
func (s *scratch) queueOwn(d *Decision) {
	refused := gravest(d.Additional) != Allowed
	if limits(d.Policy) {
		s.queueRequest(d, d.Policy, false)
		s.requests[len(s.requests)-1].Peek = d.Check.Peek || refused
	}
	if !refused {
		s.queueShadows(d)
	}
}

// queueShadows queues the requests of d's shadow policies that are not decided yet.
func (s *scratch) queueShadows(d *Decision) {
	if d.Shadow != nil && d.Shadow.Outcome == Allowed {
		s.queueRequest(d, d.Shadow.Policy, true)
	}
	for i := range d.Additional {
		s.queueShadows(&d.Additional[i])
	}
}

// refusingRule returns the index of the first rule that always refuses.
func refusingRule(p *rules.Policy) int {
	return slices.IndexFunc(p.Rules, func(r rules.Rule) bool { return r.Limit == 0 })
}

// maxParallel is how many checks of a batch are sent to a remote log at the same time, if each is
// decided by several policies.
const maxParallel = 64

// decideEach decides each check whose index is in batch.combined, which several policies decide.
// With a remote log it decides several checks concurrently, so checks of the same key may be
// decided in any order. Each has a deadline of its own, unless that of batch has passed or
// applies to the batch as a whole.
func (g *Gate) decideEach(ctx context.Context, batch *scratch, decisions []Decision, errs []error) {
	which, late := batch.combined, time.Time{}
	if g.local != nil && (batch.isLate(g) || g.ofAll) {
		late = batch.until
	}
	decide := func(i int) {
		s := g.scratch.Get().(*scratch)
		defer s.release()
		s.until = late
		var outcome Outcome
		if outcome, errs[i] = g.decideAsOne(ctx, s, decisions[i:i+1]); errs[i] == nil && outcome != Allowed {
			decisions[i].withdraw()
		}
	}
	if g.local == nil || len(which) == 1 {
		for _, i := range which {
			decide(i)
		}
		return
	}
	var running sync.WaitGroup
	next := make(chan int)
	for range min(maxParallel, len(which)) {
		running.Go(func() {
			supervise.Do("checks", func() {
				for i := range next {
					errs[i] = supervise.Call("check", func() error { decide(i); return errs[i] })
				}
			})
		})
	}
	for _, i := range which {
		next <- i
	}
	close(next)
	running.Wait()
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
		d.describeRequest()
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

// Bounds of what describeRequest adds: the number of entries of Meta, and the bytes of a value.
const (
	maxMeta      = 8
	maxDescribed = 256
)

// describeRequest adds the path, method and agent to the check's Meta, so that the record of the
// refusal shows what was requested.
func (d *Decision) describeRequest() {
	if d.Outcome != Limited {
		return
	}
	meta := maps.Clone(d.Check.Meta)
	if meta == nil {
		meta = map[string]string{}
	}
	for _, a := range []conditions.Attribute{conditions.Path, conditions.Method, conditions.Agent} {
		value := d.Check.Request.Value(a)
		if _, has := meta[a.String()]; value != "" && !has && len(meta) < maxMeta {
			shown := escape.Log(value)
			meta[a.String()] = strings.ToValidUTF8(shown[:min(len(shown), maxDescribed)], "")
		}
	}
	d.Check.Meta = meta
}
