package forwardauth

import (
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/ratelimit"
	"github.com/stint-dev/stint/internal/wire"
)

// The headers of an answer beside Retry-After, RateLimit and RateLimit-Policy, for
// proxies that pass on headers only.
var (
	decisionHeader = []byte("X-Stint-Decision")   // allowed, limited, blocked or unavailable
	statusHeader   = []byte("X-Stint-Status")     // the true status, whatever the query's refuse says
	refusalHeader  = []byte("X-Stint-Refusal-Id") // what "stint-admin explain" takes
	degradedHeader = []byte("X-Stint-Degraded")   // the outage that the decision was made under
)

// answer answers with a decision. The body of a refusal is for the client that is
// refused, so it names neither policy nor reason.
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
	if decision.ID != "" {
		c.SetHeader(refusalHeader, []byte(decision.ID))
	}
	shown := status
	if q.Refuse403 {
		shown = http.StatusForbidden
	}
	problem := &wire.Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: shown, Code: string(decision.Outcome),
		Detail: detail(decision), RequestID: c.RequestID, TraceID: c.TraceID(),
	}
	body, err := json.Marshal(problem)
	if err != nil {
		return err
	}
	c.Status(shown)
	c.Response().SetBody(body)
	c.Set(fiber.HeaderContentType, wire.ProblemType)
	return nil
}

func detail(d *gate.Decision) string {
	wait := ratelimit.RetryAfterSeconds(&d.Answer)
	switch {
	case d.Outcome == gate.Blocked && d.Block != nil && d.Block.Expires.IsZero():
		return "This client is blocked."
	case d.Outcome == gate.Blocked:
		return "This client is blocked for a time. Try again later."
	case d.Outcome == gate.Unavailable:
		return "The service cannot decide at the moment. Try again later."
	case d.Never || wait == 0:
		return "Too many requests."
	case wait == 1:
		return "Too many requests. Try again in 1 second."
	}
	return "Too many requests. Try again in " + strconv.FormatInt(wait, 10) + " seconds."
}
