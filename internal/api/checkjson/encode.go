package checkjson

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stint-dev/stint/internal/challenge"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// Fast path. Plain version: json.Marshal of a wire.Decision, in plain_test.go.
// Benchmark: BenchmarkEncodeDecision, 15 times faster.

// Encoder writes decisions. The zero value is ready for use. It is safe for concurrent use.
type Encoder struct{ texts rules.PerPolicy[[]ruleText] }

// ruleText is the JSON of a rule, which every decision repeats.
type ruleText struct {
	rule  []byte // "5/1m", with the quotes
	state []byte // its wire.RuleState, up to the remaining number
}

func textsOf(p *rules.Policy) []ruleText {
	all := make([]ruleText, len(p.Rules))
	for i, rule := range p.Rules {
		t := &all[i]
		t.rule = rule.AppendJSON(nil)
		t.state = append(append(t.state, `{"rule":`...), t.rule...)
		t.state = append(t.state, `,"limit":`...)
		t.state = strconv.AppendInt(t.state, int64(rule.Limit), 10)
		t.state = append(t.state, `,"window_ms":`...)
		t.state = strconv.AppendInt(t.state, rule.WindowMS(), 10)
		t.state = append(t.state, `,"remaining":`...)
	}
	return all
}

// textsOf returns the texts for an answer about p, nil if the answer needs none. The rules of a
// key's own limit do not belong to a policy of the selector. They may be as many as keys, so
// their texts are not cached.
func (e *Encoder) textsOf(p *rules.Policy, a *gate.Answer, isOwn bool, selector *rules.Selector) []ruleText {
	switch {
	case p == nil || a.States == nil && a.Rule < 0:
		return nil
	case isOwn:
		return textsOf(p)
	}
	return e.texts.Of(p, selector, textsOf)
}

// AppendDecision appends a decision as the JSON of a wire.Decision. The policies of the
// decision must be in the selector.
func (e *Encoder) AppendDecision(b []byte, d *gate.Decision, selector *rules.Selector) []byte {
	b = append(b, `{"id":`...)
	b = appendRefusalID(b, d.ID)
	b = append(b, `,"decision":"`...)
	b = append(b, d.Plain()...)
	b = append(b, `","allowed":`...)
	b = strconv.AppendBool(b, d.Allowed())
	b = append(b, `,"key":`...)
	b = appendString(b, d.Check.Key.String())
	if d.Policy == nil {
		b = append(b, `,"policy":null,"mode":null`...)
		if isScoped(d) {
			b = append(b, `,"conditional":true`...)
		}
	} else {
		b = append(b, `,"policy":`...)
		b = appendString(b, d.Policy.Name)
		b = append(b, `,"mode":`...)
		b = appendString(b, string(d.Policy.Mode))
		if d.Policy.DependsOnRequest() || isScoped(d) {
			b = append(b, `,"conditional":true`...)
		}
	}
	b = appendDerived(b, &d.Answer)
	if d.OwnLimit != nil {
		b = append(b, `,"own_limit":true`...)
	}
	b = append(b, `,"degraded":`...)
	b = strconv.AppendBool(b, d.Degraded != "")
	if d.Degraded != "" {
		b = append(b, `,"degraded_reason":`...)
		b = appendString(b, d.Degraded)
	}
	b = appendAnswer(b, e.textsOf(d.Policy, &d.Answer, d.OwnLimit != nil, selector), &d.Answer)
	b = appendBlock(b, d)
	b = append(b, `,"shadow":`...)
	b = e.appendShadow(b, d.Shadow, selector)
	if d.Check.MaxWait > 0 || d.Check.Cancellable || d.Delay > 0 {
		b = appendReservation(b, &d.Answer, d.Handle)
	}
	b = appendHold(b, &d.Hold, d.At)
	if d.TooManyHolds {
		b = append(b, `,"too_many_holds":true`...)
	}
	if d.Replayed {
		b = append(b, `,"replayed":true`...)
	}
	if sentence := d.EvidenceSentence(); sentence != "" {
		b = append(b, `,"evidence":`...)
		b = appendString(b, sentence)
	}
	if d.Exemption != nil {
		b = appendExemption(b, d)
	}
	if d.Outcome == gate.Challenged {
		b = append(b, `,"reason":"challenged","challenge":"`+challenge.Path+`"`...)
	}
	return append(b, '}')
}

// isScoped reports whether the block that refuses applies only to the scope of this check.
func isScoped(d *gate.Decision) bool {
	return d.Outcome == gate.Blocked && d.Block != nil && d.Block.Scope != ""
}

// appendDerived appends the derived key that an answer is about, nothing if there is none.
func appendDerived(b []byte, a *gate.Answer) []byte {
	if a.Derived == nil {
		return b
	}
	b = append(b, `,"derived_key":`...)
	return appendString(b, a.Derived.String())
}

// appendAnswer appends the members that a decision and a shadow share.
func appendAnswer(b []byte, texts []ruleText, a *gate.Answer) []byte {
	b = appendRetry(b, a)
	b = append(b, `,"rule":`...)
	if a.Rule >= 0 && a.Rule < len(texts) {
		b = append(b, texts[a.Rule].rule...)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"rules":`...)
	return appendStates(b, texts, a.States)
}

// appendRetry appends how long to wait after a refusal.
func appendRetry(b []byte, a *gate.Answer) []byte {
	b = append(b, `,"retry_after_ms":`...)
	if a.Never {
		b = append(b, "null"...)
	} else {
		b = strconv.AppendInt(b, RetryAfterMS(a), 10)
	}
	b = append(b, `,"retry_at":`...)
	return wire.At(a.RetryAt).AppendJSON(b)
}

// appendReservation appends the members of a wire.Waiting.
func appendReservation(b []byte, a *gate.Answer, handle string) []byte {
	b = append(b, `,"delay_ms":`...)
	b = strconv.AppendInt(b, a.Delay.Milliseconds(), 10)
	if a.ReservedAt.IsZero() {
		return append(b, `,"reservation":null`...)
	}
	b = append(b, `,"reservation":{"at":`...)
	b = wire.At(a.ReservedAt).AppendJSON(b)
	b = append(b, `,"handle":`...)
	b = appendString(b, handle)
	return append(b, '}')
}

// appendHold appends what a check that was decided at a time holds, nothing if it holds nothing.
func appendHold(b []byte, h *gate.Hold, at time.Time) []byte {
	if h.Handle == "" {
		return b
	}
	b = append(b, `,"hold":{"handle":`...)
	b = appendString(b, h.Handle)
	b = append(b, `,"expires_at":`...)
	b = wire.At(h.Expires).AppendJSON(b)
	b = append(b, `,"expires_in_ms":`...)
	b = strconv.AppendInt(b, max(0, h.Expires.Sub(at).Milliseconds()), 10)
	return append(b, '}')
}

// RetryAfterMS returns the wait in milliseconds, rounded up so that it is never too short.
func RetryAfterMS(a *gate.Answer) int64 {
	return int64((a.RetryAfter() + time.Millisecond - 1) / time.Millisecond)
}

func appendStates(b []byte, texts []ruleText, states []gate.RuleState) []byte {
	if texts == nil || states == nil || len(states) != len(texts) {
		return append(b, "null"...)
	}
	b = append(b, '[')
	for i, state := range states {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, texts[i].state...)
		b = strconv.AppendInt(b, int64(state.Remaining), 10)
		b = append(b, `,"retry_after_ms":`...)
		if state.RetryAfterMS == gate.Never {
			b = append(b, "null"...)
		} else {
			b = strconv.AppendInt(b, state.RetryAfterMS, 10)
		}
		b = append(b, `,"reset_after_ms":`...)
		b = strconv.AppendInt(b, state.ResetAfterMS, 10)
		b = append(b, '}')
	}
	return append(b, ']')
}

// appendBlock appends the block that refuses. If an exemption overrides the block, the warnings
// name the block instead.
func appendBlock(b []byte, d *gate.Decision) []byte {
	if d.Block == nil || d.Exemption != nil {
		return append(b, `,"block":null`...)
	}
	b = append(b, `,"block":{"id":`...)
	b = appendString(b, d.Block.ID)
	b = append(b, `,"pattern":`...)
	b = appendString(b, d.Block.Pattern.String())
	if scope := d.Block.ScopeOfChecks(); scope != "" && !d.Block.IsForAttacks() {
		b = append(b, `,"scope":`...)
		b = appendString(b, scope)
	}
	b = append(b, `,"reason":`...)
	b = appendString(b, d.Block.Reason)
	b = append(b, `,"source":`...)
	b = appendString(b, string(d.Block.Source))
	b = append(b, `,"expires_at":`...)
	b = wire.At(d.Block.Expires).AppendJSON(b)
	return append(b, '}')
}

func (e *Encoder) appendShadow(b []byte, s *gate.Shadow, selector *rules.Selector) []byte {
	if s == nil {
		return append(b, "null"...)
	}
	b = append(b, `{"id":`...)
	b = appendRefusalID(b, s.ID)
	b = append(b, `,"decision":"`...)
	b = append(b, s.Plain()...)
	b = append(b, `","allowed":`...)
	b = strconv.AppendBool(b, s.Outcome == gate.Allowed)
	b = append(b, `,"policy":`...)
	b = appendString(b, s.Policy.Name)
	b = appendDerived(b, &s.Answer)
	b = appendAnswer(b, e.textsOf(s.Policy, &s.Answer, false, selector), &s.Answer)
	return append(b, '}')
}

func appendExemption(b []byte, d *gate.Decision) []byte {
	b = append(b, `,"exemption":{"id":`...)
	b = appendString(b, d.Exemption.ID)
	b = append(b, `,"pattern":`...)
	b = appendString(b, d.Exemption.Pattern.String())
	b = append(b, `,"reason":`...)
	b = appendString(b, d.Exemption.Reason)
	b = append(b, `,"expires_at":`...)
	b = wire.At(d.Exemption.Expires).AppendJSON(b)
	b = append(b, '}')
	if d.Block != nil {
		b = append(b, `,"warnings":[`...)
		b = appendString(b, "The block "+d.Block.ID+" of "+d.Block.Pattern.String()+" would refuse this key, but the exemption "+
			d.Exemption.ID+" of "+d.Exemption.Pattern.String()+" takes precedence.")
		b = append(b, ']')
	}
	return b
}

func appendRefusalID(b []byte, id offences.RefusalID) []byte {
	if id.IsZero() {
		return append(b, "null"...)
	}
	return append(id.AppendTo(append(b, '"')), '"')
}

// appendString appends a JSON string. Most strings need no escape.
func appendString(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			// Bytes that are not UTF-8 become U+FFFD; the decoder rejects them.
			quoted, _ := jsontext.AppendQuote(b, text)
			return quoted
		}
	}
	b = append(b, '"')
	b = append(b, text...)
	return append(b, '"')
}

// AppendCombined appends the decision about several keys as the JSON of a wire.KeysDecision.
// The reservation belongs to all keys together, so the decisions about single keys do not show
// it. canWait reports whether the check had a max_wait or was cancellable. The policies must be in the selector.
func (e *Encoder) AppendCombined(b []byte, all *gate.Combined, canWait bool, selector *rules.Selector) []byte {
	b = append(b, `{"id":`...)
	b = appendRefusalID(b, all.ID)
	b = append(b, `,"decision":"`...)
	b = append(b, all.Plain()...)
	b = append(b, `","allowed":`...)
	b = strconv.AppendBool(b, all.Allowed())
	b = append(b, `,"degraded":`...)
	b = strconv.AppendBool(b, all.Degraded != "")
	if all.Degraded != "" {
		b = append(b, `,"degraded_reason":`...)
		b = appendString(b, all.Degraded)
	}
	b = appendRetry(b, &all.Answer)
	if canWait || all.Delay > 0 {
		b = appendReservation(b, &all.Answer, all.Handle)
	}
	b = appendHold(b, &all.Hold, all.At)
	if all.Replayed {
		b = append(b, `,"replayed":true`...)
	}
	b = append(b, `,"decisions":[`...)
	for i := range all.Decisions {
		if i > 0 {
			b = append(b, ',')
		}
		single := all.Decisions[i]
		single.Check.MaxWait, single.Check.Cancellable, single.Delay = 0, false, 0
		b = e.AppendDecision(b, &single, selector)
	}
	return append(b, "]}"...)
}
