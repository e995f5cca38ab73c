package tracing

import (
	"encoding/hex"

	"go.opentelemetry.io/otel/trace"
)

// Parent is the span that a request says it belongs to (W3C Trace Context). The zero
// Parent is none.
type Parent struct {
	trace   [16]byte
	span    [8]byte
	sampled bool
}

// length is the length of a traceparent of version 00: version, trace, span and flags.
const length = 2 + 1 + 32 + 1 + 16 + 1 + 2

// ParseParent reads a traceparent header, the zero Parent if it is not one. Later versions
// may be longer.
func ParseParent(text []byte) (p Parent) {
	if len(text) < length || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return Parent{}
	}
	var version, flags [1]byte
	if !decode(version[:], text[:2]) || version[0] == 0xff || !decode(flags[:], text[53:55]) ||
		version[0] == 0 && len(text) != length || len(text) > length && text[length] != '-' {
		return Parent{}
	}
	if !decode(p.trace[:], text[3:35]) || !decode(p.span[:], text[36:52]) || p.trace == ([16]byte{}) || p.span == ([8]byte{}) {
		return Parent{}
	}
	p.sampled = flags[0]&1 == 1
	return p
}

// decode reads lower case hexadecimal digits, as the standard has them.
func decode(to, text []byte) bool {
	for _, c := range text {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	_, err := hex.Decode(to, text)
	return err == nil
}

// IsZero reports whether there is no parent.
func (p Parent) IsZero() bool { return p == Parent{} }

// TraceID returns the 32 digits of the trace, "" for the zero Parent.
func (p Parent) TraceID() string {
	if p.IsZero() {
		return ""
	}
	return hex.EncodeToString(p.trace[:])
}

// AppendTo appends the header's text.
func (p Parent) AppendTo(to []byte) []byte {
	to = hex.AppendEncode(append(to, "00-"...), p.trace[:])
	to = hex.AppendEncode(append(to, '-'), p.span[:])
	if p.sampled {
		return append(to, "-01"...)
	}
	return append(to, "-00"...)
}

func (p Parent) context() trace.SpanContext {
	flags := trace.TraceFlags(0)
	if p.sampled {
		flags = trace.FlagsSampled
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: p.trace, SpanID: p.span, TraceFlags: flags, Remote: true})
}
