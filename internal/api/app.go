package api

import (
	"bytes"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
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
// stream, bodies beyond body are handed to the handler as they come, which
// then bounds them. With immutable, texts of the request may be kept after it;
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
	server.Handler = s.guardFraming(app, server.Handler)
	return app
}

// guardFraming refuses what fiber and fasthttp let pass: a request that says
// its length in two ways, which a proxy in front might read differently and so
// take its tail for another request, and methods that HTTP does not know.
func (s *Server) guardFraming(app *fiber.App, next fasthttp.RequestHandler) fasthttp.RequestHandler {
	methods := app.Config().RequestMethods // once: Config copies all of itself
	return func(rc *fasthttp.RequestCtx) {
		var err error
		switch {
		case hasTwoLengths(&rc.Request.Header):
			rc.SetConnectionClose()
			err = fiber.NewError(fiber.StatusBadRequest, "Content-Length and Transfer-Encoding stand side by side; send one of them")
		case isFolded(rc.Request.Header.RawHeaders()):
			rc.SetConnectionClose()
			err = fiber.NewError(fiber.StatusBadRequest, "a header goes on in a second line; send each in one")
		case !knownMethod(methods, rc.Method()):
			err = fiber.NewError(fiber.StatusNotImplemented, "the method is not one that HTTP defines")
		default:
			next(rc)
			return
		}
		c := app.AcquireCtx(rc)
		defer app.ReleaseCtx(c)
		_ = s.fail(c, err) // it writes the answer and fails at nothing
	}
}

// hasTwoLengths reports whether a request came with a Content-Length and in
// chunks. What fasthttp makes of one is -1, or 0 where there was no chunk.
func hasTwoLengths(h *fasthttp.RequestHeader) bool {
	raw := h.RawHeaders()
	return h.ContentLength() <= 0 && hasHeader(raw, "transfer-encoding") && hasHeader(raw, "content-length")
}

func knownMethod(known []string, method []byte) bool {
	for _, m := range known {
		if string(method) == m {
			return true
		}
	}
	return false
}

// isFolded reports whether a header goes on in a second line, which is obsolete
// and which some proxies read as a header of its own.
func isFolded(raw []byte) bool {
	for {
		end := bytes.IndexByte(raw, '\n')
		if end < 0 || end+1 == len(raw) {
			return false
		}
		if raw = raw[end+1:]; raw[0] == ' ' || raw[0] == '\t' {
			return true
		}
	}
}

// hasHeader reports whether a raw header block has a header of that name, in
// lower case.
func hasHeader(raw []byte, name string) bool {
	for line := range bytes.Lines(raw) {
		field, _, found := bytes.Cut(line, []byte(":"))
		if found && bytes.EqualFold(field, []byte(name)) {
			return true
		}
	}
	return false
}
