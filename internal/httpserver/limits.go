package httpserver

import (
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/stint-dev/stint/internal/fault"
)

// Limits of what is read from a connection.
const (
	MaxBody      = 1 << 20 // of a request whose route states no other limit
	MaxBatchBody = 4 << 20 // of a batch of checks or reports
	headerBytes  = 16 << 10
	ReadTimeout  = 10 * time.Second // of a whole request
	WriteTimeout = 30 * time.Second // of an answer, or of each piece of a stream
	idleTimeout  = 75 * time.Second
)

// newApp returns an application with every limit that fiber leaves open. Bodies are read
// only after the request is authorized, by ReadBody, which bounds them. With immutable,
// strings of the request may be kept after it; without, handlers must copy what they
// keep, which saves four allocations for each check.
func (s *Server) newApp(name string, immutable bool) *fiber.App {
	app := fiber.New(fiber.Config{
		AppName:                      "stint " + name,
		DisableStartupMessage:        true,
		CaseSensitive:                true,
		StrictRouting:                true,
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
	// Or an answer is lost behind which more requests have come when the server stops.
	server.CloseOnShutdown = true
	return app
}

// guard wraps the routes. It refuses methods that HTTP does not define and targets
// that name another host than the header Host, and discards the rest of a body so
// that it is not read as the next request. FramingListener checks the lengths.
func (s *Server) guard(app *fiber.App, next fasthttp.RequestHandler) fasthttp.RequestHandler {
	methods := app.Config().RequestMethods // once: Config copies all of itself
	return func(rc *fasthttp.RequestCtx) {
		var err error
		switch {
		case !HasPlainTarget(rc):
			rc.SetConnectionClose()
			err = fault.New(fault.Malformed, "The request's target must be a path, or a URL of the host that the header Host names.")
		case s.acceptAnyMethod(app, rc):
			next(rc)
			FinishBody(rc)
			return
		case !knownMethod(methods, rc.Method()):
			err = fiber.NewError(fiber.StatusNotImplemented, "the method is not one that HTTP defines")
		default:
			next(rc)
			FinishBody(rc)
			return
		}
		c := app.AcquireCtx(rc)
		defer app.ReleaseCtx(c)
		_ = s.fail(c, err) // it writes the answer and fails at nothing
		FinishBody(rc)
	}
}

func knownMethod(known []string, method []byte) bool {
	for _, m := range known {
		if string(method) == m {
			return true
		}
	}
	return false
}
