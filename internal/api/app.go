package api

import (
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
)

// Limits of what is read from a connection.
const (
	checkBody    = 64 << 10 // one check
	batchBody    = 4 << 20  // a batch, and the most the check listener reads at all
	adminBody    = 1 << 20  // what an admin request may hold, streams apart
	headerBytes  = 16 << 10
	readTimeout  = 10 * time.Second // of a whole request
	writeTimeout = 30 * time.Second
	idleTimeout  = 75 * time.Second
)

// newApp returns an application with every limit that fiber leaves open. With
// stream, bodies are read only once the request is authorized: whole, or by
// the handlers of the streamed routes as they arrive. With immutable, texts of the request may be kept after it;
// without, its handlers copy what they keep, and each check costs four
// allocations less.
func (s *Server) newApp(name string, body int, stream, immutable bool) *fiber.App {
	app := fiber.New(fiber.Config{
		AppName:                      "stint " + name,
		DisableStartupMessage:        true,
		CaseSensitive:                true,
		StrictRouting:                true,
		Immutable:                    immutable,
		BodyLimit:                    body,
		StreamRequestBody:            stream,
		DisablePreParseMultipartForm: true,
		ReadBufferSize:               headerBytes,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  idleTimeout,
		ErrorHandler:                 s.fail,
	})
	server := app.Server()
	server.Handler = s.guard(app, server.Handler)
	return app
}

// guard stands before the routes and after them. It refuses methods that HTTP
// does not define and targets that name another host than the header Host, and
// lets nothing of a body be taken for the next request. What the lengths of a
// request must be, httpserver.Listener sees to.
func (s *Server) guard(app *fiber.App, next fasthttp.RequestHandler) fasthttp.RequestHandler {
	methods := app.Config().RequestMethods // once: Config copies all of itself
	return func(rc *fasthttp.RequestCtx) {
		var err error
		switch {
		case !httpserver.HasPlainTarget(rc):
			rc.SetConnectionClose()
			err = fault.New(fault.Malformed, "The request's target must be a path, or a URL of the host that the header Host names.")
		case !knownMethod(methods, rc.Method()):
			err = fiber.NewError(fiber.StatusNotImplemented, "the method is not one that HTTP defines")
		default:
			next(rc)
			httpserver.FinishBody(rc)
			return
		}
		c := app.AcquireCtx(rc)
		defer app.ReleaseCtx(c)
		_ = s.fail(c, err) // it writes the answer and fails at nothing
		httpserver.FinishBody(rc)
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
