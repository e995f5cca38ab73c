package forwardauth

import (
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/challenge"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/ratelimit"
	"github.com/stint-dev/stint/internal/wire"
)

// The headers of a response in addition to Retry-After, RateLimit and RateLimit-Policy, for
// proxies that forward only headers.
var (
	decisionHeader = []byte("X-Stint-Decision")   // allowed, limited, blocked, challenged or unavailable
	statusHeader   = []byte("X-Stint-Status")     // the actual status, whatever the query parameter refuse says
	refusalHeader  = []byte("X-Stint-Refusal-Id") // argument of "stint-admin explain"
	degradedHeader = []byte("X-Stint-Degraded")   // the outage during which the decision was made

	challengeHeader = []byte(challenge.Header) // where a browser can solve the challenge that refuses
)

// answer sends a decision. The body of a refusal is for the refused client, so it names neither
// policy nor reason.
func (d *Door) answer(c *httpserver.Call, q *Query, decision *gate.Decision) error {
	status := statusOf[decision.Outcome]
	c.Outcome, c.Key = string(decision.Outcome), decision.Check.Key.String()
	if decision.Policy != nil {
		c.Policy = decision.Policy.Name
	}
	d.headers.Set(&c.Response().Header, decision, d.o.View.Selector())
	c.SetHeader(decisionHeader, []byte(decision.Outcome))
	c.SetHeader(statusHeader, strconv.AppendInt(nil, int64(status), 10))
	if decision.Degraded != "" {
		c.SetHeader(degradedHeader, []byte(decision.Degraded))
	}
	if decision.Allowed() {
		c.Status(http.StatusOK)
		return nil
	}
	if !decision.ID.IsZero() {
		c.SetHeader(refusalHeader, decision.ID.AppendTo(nil))
	}
	if decision.Outcome == gate.Challenged {
		c.SetHeader(challengeHeader, []byte(challenge.Path))
	}
	shown := status
	if q.Refuse403 {
		shown = http.StatusForbidden
	}
	if page := d.page(plainRequest{c}, q, decision, shown); page != nil {
		return send(c, page)
	}
	problem := problemOf(decision, shown, c.RequestID)
	problem.TraceID = c.TraceID()
	body, err := json.Marshal(problem)
	if err != nil {
		return err
	}
	c.Status(shown)
	c.Response().SetBody(body)
	c.Set(fiber.HeaderContentType, wire.ProblemType)
	return nil
}

// problemOf returns the body of a refusal that is answered with a status.
func problemOf(decision *gate.Decision, status int, requestID string) *wire.Refusal {
	seconds := ratelimit.RetryAfterSeconds(&decision.Answer)
	kind, own := wire.RefusalOf(string(decision.Outcome))
	r := &wire.Refusal{
		Type: kind, Title: http.StatusText(own), Status: status, Detail: string(wire.AppendRefusalDetail(nil, string(decision.Outcome), seconds)),
		Code: string(decision.Outcome), RequestID: requestID,
	}
	if !decision.ID.IsZero() {
		r.ID = decision.ID.String()
	}
	if rule, found := ratelimit.Violated(decision); found {
		r.Violated = []string{rule.String()}
	}
	return r
}

// answerFast is answer for the fast path of package httpserver, which has no traces.
//
// Fast path. Plain version: answer; the tests of package api compare both byte for byte.
// Benchmark: BenchmarkServedForward of package api, for the whole request; see httpserver/fast.go.
func (d *Door) answerFast(c *httpserver.FastCall, q *Query, decision *gate.Decision) {
	status := statusOf[decision.Outcome]
	c.Status, c.Outcome, c.Key = status, string(decision.Outcome), decision.Check.Key.String()
	if decision.Policy != nil {
		c.Policy = decision.Policy.Name
	}
	c.Head = d.headers.Append(c.Head, decision, d.o.View.Selector())
	c.Head = appendHeader(c.Head, decisionHeader, decision.Outcome)
	c.Head = append(append(c.Head, statusHeader...), ": "...)
	c.Head = append(strconv.AppendInt(c.Head, int64(status), 10), "\r\n"...)
	if decision.Degraded != "" {
		c.Head = appendHeader(c.Head, degradedHeader, decision.Degraded)
	}
	if decision.Allowed() {
		return
	}
	if !decision.ID.IsZero() {
		c.Head = append(append(c.Head, refusalHeader...), ": "...)
		c.Head = append(decision.ID.AppendTo(c.Head), "\r\n"...)
	}
	if decision.Outcome == gate.Challenged {
		c.Head = appendHeader(c.Head, challengeHeader, challenge.Path)
	}
	if q.Refuse403 {
		c.Status = http.StatusForbidden
	}
	if page := d.page(c, q, decision, c.Status); page != nil {
		c.Status = page.Status
		for _, h := range page.Headers {
			c.Head = appendHeader(c.Head, []byte(h[0]), h[1])
		}
		if page.Body != nil {
			c.Answer, c.ContentType = append(c.Answer, page.Body...), page.ContentType
		}
		return
	}
	c.ContentType = wire.ProblemType
	c.Answer = appendProblem(c.Answer, decision, c.Status, c.RequestID)
}

// appendProblem appends the JSON of problemOf. No part of it needs escaping.
//
// Fast path. Plain version: json.Marshal of problemOf. Benchmark: BenchmarkProblem, 20 times
// faster.
func appendProblem(b []byte, decision *gate.Decision, status int, requestID []byte) []byte {
	kind, own := wire.RefusalOf(string(decision.Outcome))
	b = append(append(b, `{"type":"`...), kind...)
	b = append(append(b, `","title":"`...), http.StatusText(own)...)
	b = append(b, `","status":`...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, `,"detail":"`...)
	b = wire.AppendRefusalDetail(b, string(decision.Outcome), ratelimit.RetryAfterSeconds(&decision.Answer))
	b = append(append(b, `","code":"`...), decision.Outcome...)
	if !decision.ID.IsZero() {
		b = decision.ID.AppendTo(append(b, `","id":"`...))
	}
	b = append(b, '"')
	if rule, found := ratelimit.Violated(decision); found {
		b = append(append(append(b, `,"violated-policies":["`...), rule.String()...), `"]`...)
	}
	b = append(append(b, `,"request_id":"`...), requestID...)
	return append(b, `"}`...)
}

func appendHeader[T ~string](b, name []byte, value T) []byte {
	b = append(append(b, name...), ": "...)
	return append(append(b, value...), "\r\n"...)
}
