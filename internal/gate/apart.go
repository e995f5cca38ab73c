package gate

import (
	"context"
	"errors"
	"slices"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// DecideAllOrApart is DecideAll for gateways, which cannot ask about their keys one by one and
// may let a request pass if the answer is an error. If the logs of the keys are in different
// slots of a Redis Cluster, or more than one call of the log decides, it first peeks at each and
// then charges each if none is refused. Another request may use up a limit in between: then the
// request is refused although some of its keys were charged. MaxWait must be 0.
func (g *Gate) DecideAllOrApart(ctx context.Context, checks []Check) (Combined, error) {
	c, err := g.DecideAll(ctx, checks)
	if !errors.Is(err, timestamplog.ErrCrossSlot) && !errors.Is(err, errTooMany) {
		return c, err
	}
	asked := slices.Clone(checks)
	for i := range asked {
		asked[i].Peek = asked[i].Peek || !asked[i].ChargeAlways
	}
	var which []int
	for i := range asked {
		which = append(which, i)
	}
	decisions, err := g.decideApart(ctx, asked, which)
	if err != nil {
		return Combined{}, err
	}
	// A refusal charges nothing. The checks that were refused are repeated first, so that the
	// refusals are recorded. If all of them have room by now, the others are charged too.
	for _, allowed := range []bool{false, true} {
		if allowed && gravest(decisions) != Allowed {
			break
		}
		which = which[:0]
		for i := range checks {
			if asked[i].Peek != checks[i].Peek && (decisions[i].Outcome == Allowed) == allowed {
				which = append(which, i)
				asked[i].Peek = checks[i].Peek
			}
		}
		charged, err := g.decideApart(ctx, checks, which)
		if err != nil {
			return Combined{}, err
		}
		for _, i := range which {
			decisions[i] = charged[i]
		}
	}
	c = Combined{Outcome: gravest(decisions), Decisions: decisions}
	c.conclude(g.now())
	if first := c.Refused(); first != nil {
		c.ID = first.ID
	}
	return c, nil
}

// isOfOneCheck reports whether all requests of s belong to one check, some of them about further
// keys.
func (s *scratch) isOfOneCheck() bool {
	for _, a := range s.asked {
		if a.decision.Check.Key != s.asked[0].decision.Check.Key {
			return false
		}
	}
	return true
}

// reservesFurther reports whether s belongs to one check with a MaxWait, and charges a further
// key.
func (s *scratch) reservesFurther() bool {
	return s.isOfOneCheck() && s.asked[0].decision.Check.MaxWait > 0 && slices.ContainsFunc(s.asked, asked.chargesFurther)
}

// waits reports whether s belongs to one check with a MaxWait, and has a request about a further
// key.
func (s *scratch) waits() bool {
	return s.isOfOneCheck() && s.asked[0].decision.Check.MaxWait > 0 &&
		slices.ContainsFunc(s.asked, func(a asked) bool { return a.policy.Derived != nil })
}

// reserveOwn asks the requests of one check with a MaxWait whose further keys are in other slots
// of a Redis Cluster and are charged nothing. It asks about the further keys first, each on its
// own and without waiting for it, and then about the check's own key in one call, so that its
// requests are reserved for one time or not at all.
func (s *scratch) reserveOwn(ctx context.Context, g *Gate, refused bool) error {
	further, own := scratch{until: s.until}, scratch{until: s.until}
	for i, a := range s.asked {
		into := &own
		if a.policy.Derived != nil {
			into = &further
		}
		into.requests, into.asked = append(into.requests, s.requests[i]), append(into.asked, a)
	}
	further.refuseWaits()
	g.askLog(ctx, &further)
	own.until = further.until
	return g.askAll(ctx, &own, refused || !further.allows())
}

func (a asked) chargesFurther() bool { return a.policy.Derived != nil && !a.policy.IsReported() }

// checkReservable returns an error if a handle cannot hold the further keys of checks with a
// MaxWait.
func (s *scratch) checkReservable() error {
	size := 0
	for i, a := range s.asked {
		if a.decision.Check.MaxWait > 0 && a.chargesFurther() {
			size += len(s.requests[i].Key)
		}
	}
	if size > maxDerivedBytes {
		return fault.Field("max_wait", "cannot be granted: the further keys of the request have %d bytes, and those of a reservation may have %d", size, maxDerivedBytes)
	}
	return nil
}

// askApart asks each request of one check on its own, because further keys of the check are in
// other slots of a Redis Cluster: first without charging, then, if none refuses, charging each.
// Another request may use up a limit in between, as in DecideAllOrApart. A peek does not detect a
// replay. So if a check with an ID is refused, its refusing requests are charged first; if they
// are replays, or have room by now, the others are charged too. As in Log.DecideAll, no refusal
// is counted, even if a policy's count_refused is set: a request that is sent again would be
// counted each time.
func (s *scratch) askApart(ctx context.Context, g *Gate) {
	charges := make([]bool, len(s.requests))
	for i := range s.requests {
		r := &s.requests[i]
		charges[i] = !r.Peek && !r.Uncharged && !r.ChargeAlways
		if r.Uncharged && s.asked[i].policy.Derived != nil {
			r.MaxWait = 0 // so that it reserves nothing at its own time
		}
		r.Peek = r.Peek || !r.ChargeAlways
	}
	g.askLog(ctx, s)
	refusing, rest := scratch{until: s.until}, scratch{until: s.until}
	for i, a := range s.asked {
		outcome, _ := a.answer()
		into := &rest
		if *outcome != Allowed {
			if !charges[i] || s.requests[i].ID == "" || a.decision.Degraded != "" {
				return
			}
			into = &refusing
		}
		if charges[i] {
			s.requests[i].Peek, s.requests[i].Options.CountRefused = false, false
			into.requests, into.asked = append(into.requests, s.requests[i]), append(into.asked, a)
		}
	}
	for _, a := range refusing.asked {
		outcome, _ := a.answer()
		*outcome = Allowed
	}
	if g.askLog(ctx, &refusing); refusing.allows() {
		rest.until = refusing.until
		g.askLog(ctx, &rest)
	}
}

// allows reports whether no request of s was refused.
func (s *scratch) allows() bool {
	return !slices.ContainsFunc(s.asked, func(a asked) bool { outcome, _ := a.answer(); return *outcome != Allowed })
}

// decideApart decides those of the checks whose indexes are in which, each on its own. A log that
// several of the checks are about is asked once. No refusal is counted, even if a policy's
// count_refused is set. If any check fails, it returns the first error.
func (g *Gate) decideApart(ctx context.Context, checks []Check, which []int) ([]Decision, error) {
	decisions, errs := make([]Decision, len(checks)), make([]error, len(checks))
	if err := g.prepareAll(checks, decisions); err != nil {
		return nil, err
	}
	s := g.scratch.Get().(*scratch)
	defer s.release()
	s.isApart = true
	for _, i := range which {
		s.queueCheck(i, &decisions[i])
	}
	s.askQueued(ctx, g, decisions, errs)
	signer := presentSigner(g)
	for _, i := range which {
		if errs[i] != nil {
			return nil, inCheck(i, errs[i])
		}
		g.finish(&decisions[i], signer)
	}
	return decisions, nil
}
