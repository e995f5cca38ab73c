package api

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofiber/fiber/v2"

	v1 "github.com/stint-dev/stint/internal/api/v1"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
)

// statusOf is the one place where mistakes become HTTP.
var statusOf = map[fault.Code]int{
	fault.Malformed:    http.StatusBadRequest,
	fault.Unauthorized: http.StatusUnauthorized,
	fault.Forbidden:    http.StatusForbidden,
	fault.NotFound:     http.StatusNotFound,
	fault.Conflict:     http.StatusConflict,
	fault.NeedConfirm:  http.StatusConflict,
	fault.Outdated:     http.StatusPreconditionFailed,
	fault.TooLarge:     http.StatusRequestEntityTooLarge,
	fault.Unsupported:  http.StatusUnsupportedMediaType,
	fault.Invalid:      http.StatusUnprocessableEntity,
	fault.NeedVersion:  http.StatusPreconditionRequired,
	fault.TooMany:      http.StatusTooManyRequests,
	fault.Unavailable:  http.StatusServiceUnavailable,
}

// httpDetail says what would be right for the errors that HTTP itself raises.
var httpDetail = map[int]string{
	http.StatusBadRequest:                  "The request is not well-formed HTTP.",
	http.StatusNotFound:                    "There is nothing at this path; paths are case sensitive and end without a slash.",
	http.StatusMethodNotAllowed:            "This path does not take that method; the header Allow names those that it takes.",
	http.StatusRequestTimeout:              "The request took too long to arrive.",
	http.StatusRequestEntityTooLarge:       "The body is larger than this listener takes.",
	http.StatusRequestHeaderFieldsTooLarge: "The headers are larger than this listener takes.",
}

// httpCode names the errors that HTTP itself raises, for programs.
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

// problemOf translates an error. What is nobody's mistake is a 500 that tells
// nothing of its cause.
func problemOf(err error) *v1.Problem {
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
	return newProblem(http.StatusInternalServerError, "internal", "Something broke here, not in the request; the log says what under this request_id.")
}

func problemOfMistake(mistake *fault.Error) *v1.Problem {
	status, known := statusOf[mistake.Code]
	if !known {
		status = http.StatusInternalServerError
	}
	p := newProblem(status, string(mistake.Code), mistake.Error())
	p.Field = mistake.Field
	for name, value := range mistake.Detail {
		if name == errorsDetail {
			p.Errors, _ = value.([]v1.FieldProblem)
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

// errorsDetail is the fault's detail that lists every wrong field.
const errorsDetail = "errors"

func newProblem(status int, code, detail string) *v1.Problem {
	return &v1.Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code, Detail: detail}
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

// fail answers an error that no handler has answered, fiber's own included.
func (s *Server) fail(c *fiber.Ctx, err error) error {
	id := requestID(c)
	p := problemOf(err)
	if p.Status == http.StatusBadRequest {
		if framing := httpserver.FramingErrorOf(c.Context()); framing != nil {
			p = newProblem(p.Status, string(fault.Malformed), framing.Detail)
		}
	}
	p.RequestID = id
	if p.Status >= http.StatusInternalServerError {
		s.logFailure(c, id, err)
	}
	writeProblem(c, p)
	setWait(c, err)
	c.Set(fiber.HeaderXRequestID, id)
	return nil
}

func writeProblem(c *fiber.Ctx, p *v1.Problem) {
	body, err := json.Marshal(p)
	if err != nil { // a problem holds nothing that cannot be written
		body = []byte(`{"type":"about:blank","title":"Internal Server Error","status":500,"code":"internal"}`)
	}
	c.Status(p.Status)
	c.Response().SetBody(body)
	c.Set(fiber.HeaderContentType, v1.ProblemType)
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	switch p.Status {
	case http.StatusUnauthorized:
		c.Set(fiber.HeaderWWWAuthenticate, `Bearer realm="stint"`)
	case http.StatusServiceUnavailable:
		c.Set(fiber.HeaderRetryAfter, "1")
	case http.StatusRequestEntityTooLarge:
		c.Context().SetConnectionClose() // the rest of the body is not read
	}
}

// waitError is a mistake that time mends.
type waitError struct {
	mistake *fault.Error
	wait    time.Duration
}

// Error returns the mistake's own text.
func (e *waitError) Error() string { return e.mistake.Error() }

// Unwrap returns the mistake.
func (e *waitError) Unwrap() error { return e.mistake }

func setWait(c *fiber.Ctx, err error) {
	var w *waitError
	if errors.As(err, &w) {
		c.Set(fiber.HeaderRetryAfter, strconv.FormatInt(ceilSeconds(w.wait.Milliseconds()), 10))
	}
}

// ceilSeconds rounds milliseconds up to whole seconds.
func ceilSeconds(ms int64) int64 { return (ms + 999) / 1000 }
