package httpserver

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/wire"
)

// StatusOf returns the HTTP status of the response to err.
func StatusOf(err error) int { return ProblemOf(err).Status }

// statusOf maps faults to HTTP statuses, for all front ends.
var statusOf = map[fault.Code]int{
	fault.Malformed:    http.StatusBadRequest,
	fault.Unauthorized: http.StatusUnauthorized,
	fault.Forbidden:    http.StatusForbidden,
	fault.NotFound:     http.StatusNotFound,
	fault.Conflict:     http.StatusConflict,
	fault.Settled:      http.StatusConflict,
	fault.Expired:      http.StatusGone,
	fault.NeedConfirm:  http.StatusConflict,
	fault.Proposed:     http.StatusConflict,
	fault.Outdated:     http.StatusPreconditionFailed,
	fault.TooLarge:     http.StatusRequestEntityTooLarge,
	fault.Unsupported:  http.StatusUnsupportedMediaType,
	fault.Invalid:      http.StatusUnprocessableEntity,
	fault.NeedVersion:  http.StatusPreconditionRequired,
	fault.TooMany:      http.StatusTooManyRequests,
	fault.Unavailable:  http.StatusServiceUnavailable,
	// Not 503, and no Retry-After: a client must not retry these automatically.
	fault.Saved:      http.StatusInternalServerError,
	fault.MaybeSaved: http.StatusInternalServerError,
}

// httpDetail is the text for errors that HTTP itself raises: it says what is allowed.
var httpDetail = map[int]string{
	http.StatusBadRequest:                  "The request is not well-formed HTTP.",
	http.StatusNotFound:                    wire.DetailNoPath,
	http.StatusMethodNotAllowed:            "This path does not take that method; the header Allow names those that it takes.",
	http.StatusRequestTimeout:              "The request took too long to arrive.",
	http.StatusRequestEntityTooLarge:       "The body is larger than this listener takes.",
	http.StatusRequestHeaderFieldsTooLarge: "The headers are larger than this listener takes.",
}

// httpCode is the machine-readable code of errors that HTTP itself raises.
var httpCode = map[int]string{
	http.StatusBadRequest:                  string(fault.Malformed),
	http.StatusNotFound:                    string(fault.NotFound),
	http.StatusMethodNotAllowed:            "method_not_allowed",
	http.StatusRequestTimeout:              "timeout",
	http.StatusRequestEntityTooLarge:       string(fault.TooLarge),
	http.StatusRequestHeaderFieldsTooLarge: "headers_too_large",
	http.StatusNotImplemented:              "not_implemented",
	http.StatusMisdirectedRequest:          "host_not_allowed",
}

// ProblemOf converts an error. An error that is not a fault becomes a 500 that does not reveal
// its cause.
func ProblemOf(err error) *wire.Problem {
	var mistake *fault.Error
	if errors.As(err, &mistake) {
		return problemOfMistake(mistake)
	}
	var raised *fiber.Error
	if errors.As(err, &raised) && raised.Code < http.StatusInternalServerError || raised != nil && raised.Code == http.StatusNotImplemented {
		detail, known := httpDetail[raised.Code]
		if !known {
			detail = sentence(raised.Message)
		}
		code, known := httpCode[raised.Code]
		if !known {
			code = "http_" + strconv.Itoa(raised.Code)
		}
		return newProblem(raised.Code, code, detail)
	}
	return newProblem(http.StatusInternalServerError, "internal", "An internal error; the log of the server has its cause under this request_id.")
}

func problemOfMistake(mistake *fault.Error) *wire.Problem {
	status, known := statusOf[mistake.Code]
	if !known {
		status = http.StatusInternalServerError
	}
	p := newProblem(status, string(mistake.Code), mistake.Error())
	p.Field = mistake.Field
	for name, value := range mistake.Detail {
		if name == FieldErrors {
			p.Errors, _ = value.([]wire.FieldProblem)
			continue
		}
		text, err := json.Marshal(value)
		if err != nil {
			text, _ = json.Marshal(fmt.Sprint(value))
		}
		if p.More == nil {
			p.More = map[string]jsontext.Value{}
		}
		p.More[name] = text
	}
	return p
}

// FieldErrors is the name of the detail of a fault that lists every invalid field, as
// []wire.FieldProblem.
const FieldErrors = "errors"

func newProblem(status int, code, detail string) *wire.Problem {
	return &wire.Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code, Detail: detail}
}

func sentence(text string) string {
	if text == "" {
		return ""
	}
	if text[0] >= 'a' && text[0] <= 'z' {
		text = string(text[0]-'a'+'A') + text[1:]
	}
	if last := text[len(text)-1]; last != '.' {
		text += "."
	}
	return text
}

// fail sends the response for an error that no handler has answered, including fiber's own.
func (s *Server) fail(c *fiber.Ctx, err error) error {
	id := requestID(c)
	p := ProblemOf(err)
	if p.Status == http.StatusBadRequest {
		if framing := FramingErrorOf(c.Context()); framing != nil {
			p = newProblem(p.Status, string(fault.Malformed), framing.Detail)
		}
	}
	p.RequestID, p.TraceID = id, traceID(c)
	if s.o.MissingPage != nil && p.Status == http.StatusNotFound && c.App() == s.admin && wantsPage(c) {
		c.Set(fiber.HeaderXRequestID, id)
		return s.o.MissingPage(c)
	}
	if p.Status >= http.StatusInternalServerError {
		s.logFailure(c, id, p.Status, err)
	}
	writeProblem(c, p)
	setWait(c, err)
	c.Set(fiber.HeaderXRequestID, id)
	return nil
}

// wantsPage reports whether the request comes from a browser that will show the response.
func wantsPage(c *fiber.Ctx) bool {
	return c.Method() == http.MethodGet && strings.Contains(c.Get(fiber.HeaderAccept), fiber.MIMETextHTML) && !strings.HasPrefix(c.Path(), "/v1/")
}

func writeProblem(c *fiber.Ctx, p *wire.Problem) {
	body, err := json.Marshal(p, json.Deterministic(true))
	if err != nil { // cannot happen: a problem holds only values that can be encoded
		body = []byte(`{"type":"about:blank","title":"Internal Server Error","status":500,"code":"internal"}`)
	}
	c.Status(p.Status)
	c.Response().SetBody(body)
	c.Set(fiber.HeaderContentType, wire.ProblemType)
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	switch p.Status {
	case http.StatusUnauthorized:
		c.Set(fiber.HeaderWWWAuthenticate, `Bearer realm="stint"`)
	case http.StatusServiceUnavailable:
		c.Set(fiber.HeaderRetryAfter, "1")
	case http.StatusRequestEntityTooLarge:
		c.Context().SetConnectionClose() // the rest of the body will not be read
	}
}

// RetryError is a fault that goes away with time. Its response has the header Retry-After.
type RetryError struct {
	Fault *fault.Error
	Wait  time.Duration
}

// Error returns the text of the fault.
func (e *RetryError) Error() string { return e.Fault.Error() }

// Unwrap returns the fault.
func (e *RetryError) Unwrap() error { return e.Fault }

func setWait(c *fiber.Ctx, err error) {
	var w *RetryError
	if errors.As(err, &w) {
		c.Set(fiber.HeaderRetryAfter, strconv.FormatInt(CeilSeconds(w.Wait.Milliseconds()), 10))
	}
}

// CeilSeconds rounds milliseconds up to whole seconds.
func CeilSeconds(ms int64) int64 { return (ms + 999) / 1000 }
