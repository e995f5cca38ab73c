package wire

import (
	"net/http"
	"strconv"
)

// Refusal is the body of a refused request, for the client that is refused: a problem (RFC 9457), the
// same from the doors and from the middleware for Go and Node.js. It names no key, policy or reason.
type Refusal struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   string `json:"code"` // limited, blocked, challenged or unavailable
	// ID is what operators find the refusal by, "" if nothing is recorded.
	ID string `json:"id,omitzero"`
	// Violated is the rule that refuses, as RateLimit-Policy names it.
	Violated  []string `json:"violated-policies,omitempty"`
	RequestID string   `json:"request_id,omitzero"`
	TraceID   string   `json:"trace_id,omitzero"`
}

// The types of refusals are those of draft-ietf-httpapi-ratelimit-headers, and about:blank for a block.
const (
	typeQuotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	typeReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	typeNone            = "about:blank"
)

// RefusalOf returns the type of a refusal and its status, by the outcome of a decision.
func RefusalOf(outcome string) (kind string, status int) {
	switch outcome {
	case Limited, Challenged:
		return typeQuotaExceeded, http.StatusTooManyRequests
	case Blocked:
		return typeNone, http.StatusForbidden
	}
	return typeReducedCapacity, http.StatusServiceUnavailable
}

// AppendRefusalDetail appends the detail of a refusal; seconds is that of Retry-After, 0 for none.
// No part of it needs escaping.
func AppendRefusalDetail(b []byte, outcome string, seconds int64) []byte {
	switch {
	case outcome == Blocked && seconds == 0:
		return append(b, "This client is blocked."...)
	case outcome == Blocked:
		return append(b, "This client is blocked for a time. Try again later."...)
	case outcome == Challenged:
		return append(b, "This client has to solve a challenge first."...)
	case outcome != Limited:
		return append(b, "The service cannot decide at the moment. Try again later."...)
	case seconds == 0:
		return append(b, "Too many requests."...)
	case seconds == 1:
		return append(b, "Too many requests. Try again in 1 second."...)
	}
	b = append(b, "Too many requests. Try again in "...)
	return append(strconv.AppendInt(b, seconds, 10), " seconds."...)
}
