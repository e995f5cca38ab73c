// Package ratelimit writes the headers that give an HTTP client its quota:
// Retry-After, and RateLimit and RateLimit-Policy of
// draft-ietf-httpapi-ratelimit-headers-10.
package ratelimit

import (
	"strconv"
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
type Headers struct{ texts rules.PerPolicy[*texts] }

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
	t := h.textsOf(d, selector)
	if len(t.quotas) > 0 {
		header.SetCanonical(policyHeader, t.quotas)
	}
	if len(d.States) != len(p.Rules) {
		return
	}
	var space [256]byte
	if list := t.appendRemaining(space[:0], p.Rules, d.States, d.Allowed()); len(list) > 0 {
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
	t := h.textsOf(d, selector)
	if len(t.quotas) > 0 {
		b = append(b, "RateLimit-Policy: "...)
		b = append(b, t.quotas...)
		b = append(b, "\r\n"...)
	}
	if len(d.States) != len(p.Rules) {
		return b
	}
	const name = "RateLimit: "
	before := len(b)
	b = append(b, name...)
	list := t.appendRemaining(b[len(b):], p.Rules, d.States, d.Allowed())
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
// requests, since what remains of different values is no number of requests. A limit of what is
// concurrent has no window.
// Violated returns the rule that refuses in a decision, if clients know it by RateLimit-Policy.
func Violated(d *gate.Decision) (rules.Rule, bool) {
	rule, found := d.DecidingRule()
	return rule, found && d.Outcome == gate.Limited && isQuota(rule)
}

func isQuota(r rules.Rule) bool {
	return r.Window%time.Second == 0 && r.Distinct == "" && !r.IsConcurrent()
}

// texts are what the headers of a policy's answers have in common.
type texts struct {
	// quotas is RateLimit-Policy: "5/1m";q=5;w=60 for each rule, "" where no rule is a quota.
	quotas []byte
	// remaining is what RateLimit says of each rule before its number, "5/1m";r= and nil for
	// a rule that is no quota.
	remaining [][]byte
}

func textsOf(p *rules.Policy) *texts {
	t := &texts{remaining: make([][]byte, len(p.Rules))}
	for i, r := range p.Rules {
		if !isQuota(r) {
			continue
		}
		name := r.AppendJSON(nil)
		t.remaining[i] = append(name, ";r="...)
		if len(t.quotas) > 0 {
			t.quotas = append(t.quotas, ", "...)
		}
		t.quotas = append(t.quotas, name...)
		t.quotas = append(t.quotas, ";q="...)
		t.quotas = strconv.AppendInt(t.quotas, int64(r.Limit), 10)
		if r.Calendar == "" { // its window has no length
			t.quotas = append(t.quotas, ";w="...)
			t.quotas = strconv.AppendInt(t.quotas, int64(r.Window/time.Second), 10)
		}
	}
	return t
}

// textsOf returns those of d's policy. The rules of a key's own limit are no policy of the
// selector, and there may be as many as keys: theirs are not kept.
func (h *Headers) textsOf(d *gate.Decision, selector *rules.Selector) *texts {
	if d.OwnLimit != nil {
		return textsOf(d.Policy)
	}
	return h.texts.Of(d.Policy, selector, textsOf)
}

// appendRemaining writes "5/1m";r=0;t=4 for each rule. allowed reports whether
// the check was.
func (t *texts) appendRemaining(b []byte, stack rules.Stack, states []timestamplog.RuleState, allowed bool) []byte {
	for i, r := range stack {
		if t.remaining[i] == nil {
			continue
		}
		if len(b) > 0 {
			b = append(b, ", "...)
		}
		b = append(b, t.remaining[i]...)
		b = strconv.AppendInt(b, int64(states[i].Remaining), 10)
		if reset := quotaResetMS(r, &states[i], allowed); reset != timestamplog.Never {
			b = append(b, ";t="...)
			b = strconv.AppendInt(b, (reset+999)/1000, 10)
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
	case r.Calendar != "":
		return timestamplog.Never // it is not known when the present period ends
	}
	return r.WindowMS()
}
