package api

import (
	"strconv"
	"time"

	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// setRateLimit sets the headers of the quota. They can hold only rules of whole
// seconds, and what remains only where it is known.
func (s *API) setRateLimit(c *httpserver.Call, k *checkScratch, d *gate.Decision) {
	if !d.Never && !d.Allowed() {
		wait := httpserver.CeilSeconds(retryAfterMS(&d.Answer))
		c.SetHeader(retryAfterHeader, strconv.AppendInt(k.header[:0], wait, 10))
	}
	p := d.Policy
	if p == nil || p.Mode == rules.Off || d.Exemption != nil || d.Block != nil {
		return
	}
	if list := s.quotas.of(p, s.Catalog.Selector()); len(list) > 0 {
		c.SetHeader(rateLimitPolicyHeader, list)
	}
	if len(d.States) != len(p.Rules) {
		return
	}
	if list := appendRemaining(k.header[:0], p.Rules, d.States); len(list) > 0 {
		c.SetHeader(rateLimitHeader, list)
	}
}

func wholeSeconds(r rules.Rule) bool { return r.Window%time.Second == 0 }

// appendQuotas writes "5/1m";q=5;w=60 for each rule.
func appendQuotas(b []byte, stack rules.Stack) []byte {
	for _, r := range stack {
		if !wholeSeconds(r) {
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

// appendRemaining writes "5/1m";r=0;t=4 for each rule. A rule that refuses for
// ever has no t.
func appendRemaining(b []byte, stack rules.Stack, states []timestamplog.RuleState) []byte {
	for i, r := range stack {
		if !wholeSeconds(r) {
			continue
		}
		b = appendName(b, r)
		b = append(b, ";r="...)
		b = strconv.AppendInt(b, int64(states[i].Remaining), 10)
		if reset := states[i].RetryAfterMS; reset != timestamplog.Never {
			b = append(b, ";t="...)
			b = strconv.AppendInt(b, httpserver.CeilSeconds(reset), 10)
		}
	}
	return b
}

func appendName(b []byte, r rules.Rule) []byte {
	if len(b) > 0 {
		b = append(b, ", "...)
	}
	return appendRule(b, r)
}
