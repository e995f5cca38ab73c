// Package ratelimit writes the headers that give an HTTP client its quota:
// Retry-After, and RateLimit and RateLimit-Policy of
// draft-ietf-httpapi-ratelimit-headers-10.
package ratelimit

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// The names of the headers, in the form that fasthttp sends without conversion;
// those of the draft are spelled as in the draft.
var (
	retryAfterHeader = []byte("Retry-After")
	limitHeader      = []byte("RateLimit")
	policyHeader     = []byte("RateLimit-Policy")
)

// Headers writes the headers of answers. The zero value is ready for use, by many
// goroutines.
type Headers struct{ quotas quotas }

// Set sets the headers of the answer with a decision; selector holds its policy.
// They can hold only rules of whole seconds, and what remains only if the check
// asked for details.
func (h *Headers) Set(header *fasthttp.ResponseHeader, d *gate.Decision, selector *rules.Selector) {
	if !d.Allowed() {
		SetRetryAfter(header, &d.Answer)
	}
	p := d.Policy
	if p == nil || p.Mode == rules.Off || d.Exemption != nil || d.Block != nil {
		return
	}
	if list := h.quotas.of(d, selector); len(list) > 0 {
		header.SetCanonical(policyHeader, list)
	}
	if len(d.States) != len(p.Rules) {
		return
	}
	var space [256]byte
	if list := appendRemaining(space[:0], p.Rules, d.States, d.Allowed()); len(list) > 0 {
		header.SetCanonical(limitHeader, list)
	}
}

// Append appends what Set sets, as lines that end with CRLF each.
func (h *Headers) Append(b []byte, d *gate.Decision, selector *rules.Selector) []byte {
	if !d.Allowed() && !d.Never && !d.RetryAt.IsZero() {
		b = append(b, "Retry-After: "...)
		b = strconv.AppendInt(b, RetryAfterSeconds(&d.Answer), 10)
		b = append(b, "\r\n"...)
	}
	p := d.Policy
	if p == nil || p.Mode == rules.Off || d.Exemption != nil || d.Block != nil {
		return b
	}
	if list := h.quotas.of(d, selector); len(list) > 0 {
		b = append(b, "RateLimit-Policy: "...)
		b = append(b, list...)
		b = append(b, "\r\n"...)
	}
	if len(d.States) != len(p.Rules) {
		return b
	}
	const name = "RateLimit: "
	before := len(b)
	b = append(b, name...)
	list := appendRemaining(b[len(b):], p.Rules, d.States, d.Allowed())
	if len(list) == 0 {
		return b[:before]
	}
	return append(append(b, list...), "\r\n"...)
}

// Summary returns several decisions as one: with the policy and the rules of the first
// that refuses or, if all are allowed, of the scarcest.
func Summary(c *gate.Combined) gate.Decision {
	about := c.Refused()
	if about == nil {
		about = Scarcest(c.Decisions)
	}
	all := *about
	all.Outcome, all.ID, all.Degraded = c.Outcome, c.ID, c.Degraded
	all.RetryAt, all.Never, all.At = c.RetryAt, c.Never, c.At
	return all
}

// Scarcest returns the one of several allowed decisions whose rules leave the
// smallest part of their limits: the one that a client has to pace itself by. There
// must be at least one.
func Scarcest(all []gate.Decision) *gate.Decision {
	best, smallest := &all[0], 2.0
	for i := range all {
		d := &all[i]
		if d.Policy == nil || len(d.States) != len(d.Policy.Rules) {
			continue
		}
		for j, r := range d.Policy.Rules {
			if left := float64(d.States[j].Remaining) / float64(max(r.Limit, 1)); left < smallest {
				best, smallest = d, left
			}
		}
	}
	return best
}

// SetRetryAfter sets Retry-After in whole seconds, rounded up. It removes the
// header where waiting does not help or is not needed.
func SetRetryAfter(header *fasthttp.ResponseHeader, a *gate.Answer) {
	if a.Never || a.RetryAt.IsZero() {
		header.DelBytes(retryAfterHeader)
		return
	}
	var space [20]byte
	header.SetCanonical(retryAfterHeader, strconv.AppendInt(space[:0], RetryAfterSeconds(a), 10))
}

// RetryAfterSeconds returns the wait in whole seconds, rounded up.
func RetryAfterSeconds(a *gate.Answer) int64 {
	return int64((a.RetryAfter() + time.Second - 1) / time.Second)
}

// isQuota reports whether a rule can stand in the headers: of whole seconds, and of
// requests, since what remains of different values is no number of requests.
func isQuota(r rules.Rule) bool { return r.Window%time.Second == 0 && r.Distinct == "" }

// appendQuotas writes "5/1m";q=5;w=60 for each rule.
func appendQuotas(b []byte, stack rules.Stack) []byte {
	for _, r := range stack {
		if !isQuota(r) {
			continue
		}
		b = appendName(b, r)
		b = append(b, ";q="...)
		b = strconv.AppendInt(b, int64(r.Limit), 10)
		b = append(b, ";w="...)
		b = strconv.AppendInt(b, int64(r.Window/time.Second), 10)
	}
	return b
}

// appendRemaining writes "5/1m";r=0;t=4 for each rule. allowed reports whether
// the check was.
func appendRemaining(b []byte, stack rules.Stack, states []timestamplog.RuleState, allowed bool) []byte {
	for i, r := range stack {
		if !isQuota(r) {
			continue
		}
		b = appendName(b, r)
		b = append(b, ";r="...)
		b = strconv.AppendInt(b, int64(states[i].Remaining), 10)
		if t := quotaResetMS(r, &states[i], allowed); t != timestamplog.Never {
			b = append(b, ";t="...)
			b = strconv.AppendInt(b, (t+999)/1000, 10)
		}
	}
	return b
}

// quotaResetMS returns t, in milliseconds; Never for a rule that always refuses,
// which has no t. The draft wants t to reference the same time as Retry-After,
// and clients pace themselves by spreading r over t. So where the rule leaves
// nothing, or refuses this cost, t is when to try again; otherwise it is when the
// whole limit is available again. If it is available now, a window that begins
// now is meant: t is its length, because r=5;t=0 would ask for a burst.
func quotaResetMS(r rules.Rule, state *timestamplog.RuleState, allowed bool) int64 {
	switch {
	case state.RetryAfterMS == timestamplog.Never:
		return timestamplog.Never
	case state.RetryAfterMS > 0 && (state.Remaining == 0 || !allowed):
		return state.RetryAfterMS
	case state.ResetAfterMS > 0:
		return state.ResetAfterMS
	}
	return r.WindowMS()
}

func appendName(b []byte, r rules.Rule) []byte {
	if len(b) > 0 {
		b = append(b, ", "...)
	}
	return r.AppendJSON(b)
}

// quotas keep the header RateLimit-Policy of each policy, which is written out
// once for each version. They are forgotten with the selector that holds the
// policies, so that they are never more than its policies and those of checks
// that are under way. The zero value is ready for use.
type quotas struct{ last atomic.Pointer[quotasUnder] }

type quotasUnder struct {
	selector *rules.Selector
	byPolicy sync.Map // of []byte, by *rules.Policy
}

// of returns the header of d's policy, empty where there is nothing to say. It must not
// be changed. The rules of a key's own limit are no policy of the selector, and there may
// be as many as keys: their header is not kept.
func (q *quotas) of(d *gate.Decision, selector *rules.Selector) []byte {
	p := d.Policy
	if d.OwnLimit != nil {
		return appendQuotas(nil, p.Rules)
	}
	last := q.last.Load()
	if last == nil || last.selector != selector {
		last = &quotasUnder{selector: selector}
		q.last.Store(last)
	}
	if known, found := last.byPolicy.Load(p); found {
		return known.([]byte)
	}
	list := appendQuotas(nil, p.Rules)
	last.byPolicy.Store(p, list)
	return list
}
