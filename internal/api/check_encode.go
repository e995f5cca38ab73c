package api

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/wire"
)

// appendDecision appends the JSON of a wire.Decision. It is written by hand
// because it stands in the way of every check; a test holds it to the type.
func appendDecision(b []byte, d *gate.Decision) []byte {
	b = append(b, `{"id":`...)
	b = appendNullText(b, d.ID)
	b = append(b, `,"decision":"`...)
	b = append(b, d.Outcome...)
	b = append(b, `","allowed":`...)
	b = strconv.AppendBool(b, d.Allowed())
	b = append(b, `,"key":`...)
	b = appendText(b, d.Check.Key.String())
	if d.Policy == nil {
		b = append(b, `,"policy":null,"mode":null`...)
	} else {
		b = append(b, `,"policy":`...)
		b = appendText(b, d.Policy.Name)
		b = append(b, `,"mode":`...)
		b = appendText(b, string(d.Policy.Mode))
	}
	b = append(b, `,"degraded":`...)
	b = strconv.AppendBool(b, d.Degraded != "")
	if d.Degraded != "" {
		b = append(b, `,"degraded_reason":`...)
		b = appendText(b, d.Degraded)
	}
	b = appendAnswer(b, d.Policy, &d.Answer)
	b = appendBlock(b, d)
	b = append(b, `,"shadow":`...)
	b = appendShadow(b, d.Shadow)
	if d.Check.MaxWait > 0 || d.Delay > 0 {
		b = appendWaiting(b, &d.Answer, d.Handle)
	}
	if d.Replayed {
		b = append(b, `,"replayed":true`...)
	}
	if d.Exemption != nil {
		b = appendExemption(b, d)
	}
	return append(b, '}')
}

// appendAnswer appends what a decision and a shadow have in common.
func appendAnswer(b []byte, p *rules.Policy, a *gate.Answer) []byte {
	b = appendRetry(b, a)
	b = append(b, `,"rule":`...)
	if p != nil && a.Rule >= 0 && a.Rule < len(p.Rules) {
		b = appendRule(b, p.Rules[a.Rule])
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"rules":`...)
	return appendStates(b, p, a.States)
}

// appendRetry appends when to ask again.
func appendRetry(b []byte, a *gate.Answer) []byte {
	b = append(b, `,"retry_after_ms":`...)
	if a.Never {
		b = append(b, "null"...)
	} else {
		b = strconv.AppendInt(b, retryAfterMS(a), 10)
	}
	b = append(b, `,"retry_at":`...)
	return wire.At(a.RetryAt).AppendJSON(b)
}

// appendWaiting appends what there is to say of a reservation.
func appendWaiting(b []byte, a *gate.Answer, handle string) []byte {
	b = append(b, `,"delay_ms":`...)
	b = strconv.AppendInt(b, a.Delay.Milliseconds(), 10)
	if a.ReservedAt.IsZero() {
		return append(b, `,"reservation":null`...)
	}
	b = append(b, `,"reservation":{"at":`...)
	b = wire.At(a.ReservedAt).AppendJSON(b)
	b = append(b, `,"handle":`...)
	b = appendText(b, handle)
	return append(b, '}')
}

// retryAfterMS rounds up, so that waiting as told is never a millisecond short.
func retryAfterMS(a *gate.Answer) int64 {
	return int64((a.RetryAfter() + time.Millisecond - 1) / time.Millisecond)
}

func appendRule(b []byte, r rules.Rule) []byte {
	b = append(b, '"')
	b = strconv.AppendInt(b, int64(r.Limit), 10)
	b = append(b, '/')
	b = rules.AppendWindow(b, r.Window)
	return append(b, '"')
}

func appendStates(b []byte, p *rules.Policy, states []timestamplog.RuleState) []byte {
	if p == nil || states == nil || len(states) != len(p.Rules) {
		return append(b, "null"...)
	}
	b = append(b, '[')
	for i, state := range states {
		if i > 0 {
			b = append(b, ',')
		}
		rule := p.Rules[i]
		b = append(b, `{"rule":`...)
		b = appendRule(b, rule)
		b = append(b, `,"limit":`...)
		b = strconv.AppendInt(b, int64(rule.Limit), 10)
		b = append(b, `,"window_ms":`...)
		b = strconv.AppendInt(b, rule.WindowMS(), 10)
		b = append(b, `,"remaining":`...)
		b = strconv.AppendInt(b, int64(state.Remaining), 10)
		b = append(b, `,"retry_after_ms":`...)
		if state.RetryAfterMS == timestamplog.Never {
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

// appendBlock appends the block that refuses. One that an exemption hides is
// named in the warnings instead.
func appendBlock(b []byte, d *gate.Decision) []byte {
	if d.Block == nil || d.Exemption != nil {
		return append(b, `,"block":null`...)
	}
	b = append(b, `,"block":{"id":`...)
	b = appendText(b, d.Block.ID)
	b = append(b, `,"pattern":`...)
	b = appendText(b, d.Block.Pattern.String())
	b = append(b, `,"reason":`...)
	b = appendText(b, d.Block.Reason)
	b = append(b, `,"source":`...)
	b = appendText(b, string(d.Block.Source))
	b = append(b, `,"expires_at":`...)
	b = wire.At(d.Block.Expires).AppendJSON(b)
	return append(b, '}')
}

func appendShadow(b []byte, s *gate.Shadow) []byte {
	if s == nil {
		return append(b, "null"...)
	}
	b = append(b, `{"id":`...)
	b = appendNullText(b, s.ID)
	b = append(b, `,"decision":"`...)
	b = append(b, s.Outcome...)
	b = append(b, `","allowed":`...)
	b = strconv.AppendBool(b, s.Outcome == gate.Allowed)
	b = append(b, `,"policy":`...)
	b = appendText(b, s.Policy.Name)
	b = appendAnswer(b, s.Policy, &s.Answer)
	return append(b, '}')
}

func appendExemption(b []byte, d *gate.Decision) []byte {
	b = append(b, `,"exemption":{"id":`...)
	b = appendText(b, d.Exemption.ID)
	b = append(b, `,"pattern":`...)
	b = appendText(b, d.Exemption.Pattern.String())
	b = append(b, `,"reason":`...)
	b = appendText(b, d.Exemption.Reason)
	b = append(b, `,"expires_at":`...)
	b = wire.At(d.Exemption.Expires).AppendJSON(b)
	b = append(b, '}')
	if d.Block != nil {
		b = append(b, `,"warnings":[`...)
		b = appendText(b, "The block "+d.Block.ID+" of "+d.Block.Pattern.String()+" would refuse this key, but the exemption "+
			d.Exemption.ID+" of "+d.Exemption.Pattern.String()+" hides it.")
		b = append(b, ']')
	}
	return b
}

func appendNullText(b []byte, text string) []byte {
	if text == "" {
		return append(b, "null"...)
	}
	return appendText(b, text)
}

// appendText appends a JSON string. Most texts need no escape.
func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			// Bytes that are not UTF-8 become U+FFFD; the door lets none in.
			quoted, _ := jsontext.AppendQuote(b, text)
			return quoted
		}
	}
	b = append(b, '"')
	b = append(b, text...)
	return append(b, '"')
}
