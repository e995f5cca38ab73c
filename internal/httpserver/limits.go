package httpserver

import (
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/stint-dev/stint/internal/fault"
)

// Limits on what is read from and written to a connection.
const (
	MaxBody      = 1 << 20 // of a request whose route sets no other limit
	MaxBatchBody = 4 << 20 // of a batch of checks or reports
	headerBytes  = 16 << 10
	ReadTimeout  = 10 * time.Second // for a whole request
	WriteTimeout = 30 * time.Second // for a response, or for each piece of a stream
	idleTimeout  = 75 * time.Second
)

// newApp returns an application that sets every limit that fiber leaves open. ReadBody reads
// and bounds a body after the request is authorized. With immutable, strings of the request may
// be kept after the handler. Without it, handlers must copy what they keep, which saves four
// allocations for each check.
func (s *Server) newApp(name string, immutable bool) *fiber.App {
	app := fiber.New(fiber.Config{
		AppName:                      "stint " + name,
		DisableStartupMessage:        true,
		CaseSensitive:                true,
		StrictRouting:                true,
		EnableTrustedProxyCheck:      true, // no proxy is trusted by fiber: Hostname ignores X-Forwarded-Host
		Immutable:                    immutable,
		BodyLimit:                    MaxBody,
		StreamRequestBody:            true,
		DisablePreParseMultipartForm: true,
		ReadBufferSize:               headerBytes,
		ReadTimeout:                  ReadTimeout,
		WriteTimeout:                 WriteTimeout,
		IdleTimeout:                  idleTimeout,
		ErrorHandler:                 s.fail,
	})
	server := app.Server()
	server.Handler = s.guard(app, server.Handler)
	// Without it, a shutdown loses a response if the client has already sent more requests.
	server.CloseOnShutdown = true
	return app
}

// guard wraps the routes. It refuses methods that HTTP does not define and targets whose host
// differs from the header Host. It discards the rest of a body so that the rest is not read as
// the next request. FramingListener checks the lengths.
func (s *Server) guard(app *fiber.App, next fasthttp.RequestHandler) fasthttp.RequestHandler {
	methods := app.Config().RequestMethods // called once, since Config returns a copy
	return func(rc *fasthttp.RequestCtx) {
		var err error
		switch {
		case !HasPlainTarget(rc):
			rc.SetConnectionClose()
			err = fault.New(fault.Malformed, "The request's target must be a path, or a URL of the host that the header Host names.")
		case s.acceptAnyMethod(app, rc):
			next(rc)
			s.finish(app, rc)
			return
		case !knownMethod(methods, rc.Method()):
			err = fiber.NewError(fiber.StatusNotImplemented, "the method is not one that HTTP defines")
		default:
			next(rc)
			s.finish(app, rc)
			return
		}
		c := app.AcquireCtx(rc)
		defer app.ReleaseCtx(c)
		_ = s.fail(c, err) // it writes the response and never fails
		FinishBody(rc)
	}
}

// finish ends a request after its handler. A large response for which there is no room is not sent,
// but for one to a request that may have changed something: its client would repeat the change.
func (s *Server) finish(app *fiber.App, rc *fasthttp.RequestCtx) {
	FinishBody(rc)
	holder, is := rc.Conn().(answerHolder)
	if !is || rc.Response.IsBodyStream() || rc.UserValue(sharedBody{}) != nil || holder.holdAnswer(len(rc.Response.Body()), !rc.IsGet() && !rc.IsHead()) {
		return
	}
	id := string(rc.Response.Header.PeekCanonical(requestIDHeader))
	rc.Response.Reset()
	c := app.AcquireCtx(rc)
	defer app.ReleaseCtx(c)
	if id != "" {
		c.Set(fiber.HeaderXRequestID, id)
	}
	_ = s.fail(c, errAnswersFull) // it never fails
}

func knownMethod(known []string, method []byte) bool {
	for _, m := range known {
		if string(method) == m {
			return true
		}
	}
	return false
}
