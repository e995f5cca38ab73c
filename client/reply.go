package client

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// Reply is how a server answers its own client according to a decision. Guard and fibermw
// send it; with any other framework, send it yourself.
type Reply struct {
	// Status is 0 if the request goes on, with Header added to its answer;
	// otherwise 400, 403, 429 or 503, and Body is the whole answer.
	Status int
	// Header holds RateLimit and RateLimit-Policy
	// (draft-ietf-httpapi-ratelimit-headers-10) if the rules are known,
	// Retry-After if waiting helps, and the headers of Body.
	Header http.Header
	Body   []byte // application/problem+json (RFC 9457)
}

// The problem types of draft-ietf-httpapi-ratelimit-headers-10.
const (
	typeQuotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	typeReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

// replyProblem is the body of a Reply. It holds nothing that the request could
// choose, nor what operators wrote about a block.
type replyProblem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   string `json:"code"` // limited, blocked, challenged, unavailable or invalid
	// ID is by which the site's operators find the refusal.
	ID       string   `json:"id,omitzero"`
	Violated []string `json:"violated-policies,omitempty"`
}

// ReplyTo returns the reply to a request for which Check returned d and err: 429 if a rule
// or a challenge refused it, 403 if a block did, 503 if there is no decision, and 400 if the request
// yields an invalid key.
func ReplyTo(d *Decision, err error) Reply {
	if err != nil {
		return replyToError(err)
	}
	r := Reply{Header: rateLimits(d)}
	if d.Allowed {
		return r
	}
	p := unavailable
	switch d.Outcome {
	case Limited:
		p = replyProblem{Type: typeQuotaExceeded, Status: http.StatusTooManyRequests, Code: string(Limited), Detail: "Too many requests."}
		switch seconds := ceilSeconds(d.RetryAfter); {
		case seconds == 1:
			p.Detail += " Try again in 1 second."
		case seconds > 1:
			p.Detail += " Try again in " + strconv.FormatInt(seconds, 10) + " seconds."
		}
		if isRule(d.Rule) && !strings.HasSuffix(d.Rule, "ms") { // as RateLimit-Policy names it
			p.Violated = []string{d.Rule}
		}
	case Challenged:
		p = replyProblem{Type: typeQuotaExceeded, Status: http.StatusTooManyRequests, Code: string(Challenged), Detail: "This client has to solve a challenge first."}
		r.Header.Set("X-Stint-Challenge", d.Challenge)
	case Blocked:
		p = replyProblem{Type: "about:blank", Status: http.StatusForbidden, Code: string(Blocked), Detail: "This client is blocked."}
		if d.RetryAfter > 0 {
			p.Detail = "This client is blocked for a time. Try again later."
		}
	}
	p.ID = d.ID
	return r.refuse(p, d.RetryAfter)
}

func replyToError(err error) Reply {
	var problem *Problem
	if errors.As(err, &problem) && problem.aboutTheQuestion() && problem.Field == "key" {
		return Reply{}.refuse(replyProblem{
			Type: "about:blank", Status: http.StatusBadRequest, Code: "invalid", Detail: "What identifies the client in this request cannot be read.",
		}, 0)
	}
	return Reply{}.refuse(unavailable, outageRetry)
}

// unavailable is the body of a refusal without a decision.
var unavailable = replyProblem{
	Type: typeReducedCapacity, Status: http.StatusServiceUnavailable, Code: string(Unavailable), Detail: "The service cannot decide at the moment. Try again later.",
}

func (r Reply) refuse(p replyProblem, retryAfter time.Duration) Reply {
	if r.Header == nil {
		r.Header = http.Header{}
	}
	p.Title = http.StatusText(p.Status)
	if retryAfter > 0 {
		r.Header.Set("Retry-After", strconv.FormatInt(ceilSeconds(retryAfter), 10))
	}
	r.Header.Set("Content-Type", "application/problem+json")
	r.Header.Set("Cache-Control", "no-store")
	r.Header.Set("X-Content-Type-Options", "nosniff")
	r.Status = p.Status
	r.Body, _ = json.Marshal(p) // an ID that is no text leaves the body empty
	return r
}

// rateLimits returns the headers with a client's quota. They can contain only rules of
// whole seconds.
func rateLimits(d *Decision) http.Header {
	h := http.Header{}
	var quotas, left []string
	for _, r := range d.Rules {
		if !isRule(r.Rule) || r.Window < time.Second || r.Window%time.Second != 0 {
			continue
		}
		name := `"` + r.Rule + `"`
		quotas = append(quotas, name+";q="+strconv.Itoa(r.Limit)+";w="+strconv.FormatInt(ceilSeconds(r.Window), 10))
		state := name + ";r=" + strconv.Itoa(r.Remaining)
		if t := quotaReset(&r, d.Allowed); t != Never {
			state += ";t=" + strconv.FormatInt(ceilSeconds(t), 10)
		}
		left = append(left, state)
	}
	if len(quotas) > 0 {
		h.Set("RateLimit-Policy", strings.Join(quotas, ", "))
		h.Set("RateLimit", strings.Join(left, ", "))
	}
	return h
}

// quotaReset returns the t of a rule in RateLimit, Never for none. Stint's own
// answers choose it in the same way: where the rule leaves nothing or refuses, t
// is when to try again, as Retry-After; otherwise when the whole limit is
// available again, or its window if it is now, so that a client that spreads r
// over t is never misled.
func quotaReset(r *RuleState, allowed bool) time.Duration {
	switch {
	case r.RetryAfter == Never:
		return Never
	case r.RetryAfter > 0 && (r.Remaining == 0 || !allowed):
		return r.RetryAfter
	case r.ResetAfter > 0:
		return r.ResetAfter
	}
	return r.Window
}

// isRule reports whether text can be a rule, as "20/1m": nothing else goes into
// a header.
func isRule(text string) bool {
	for _, r := range text {
		if r != '/' && (r < '0' || r > '9') && (r < 'a' || r > 'z') {
			return false
		}
	}
	return text != ""
}

// ceilSeconds rounds up to whole seconds.
func ceilSeconds(d time.Duration) int64 {
	seconds := int64(d / time.Second)
	if d%time.Second > 0 {
		seconds++
	}
	return seconds
}
