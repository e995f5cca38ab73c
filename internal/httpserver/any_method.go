package httpserver

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// originalMethod is where the method of a request is kept that a route for every
// method answers.
const originalMethod = "stint-original-method"

// acceptAnyMethod reports whether a request is for a route of every method. The
// request then becomes a GET, or stays a HEAD, because fiber routes only the
// methods that it knows.
func (s *Server) acceptAnyMethod(app *fiber.App, rc *fasthttp.RequestCtx) bool {
	if app != s.check || len(s.anyMethod) == 0 {
		return false
	}
	for _, r := range s.anyMethod {
		if !below(rc.Path(), r.Path) {
			continue
		}
		if method := rc.Method(); !rc.IsGet() && !rc.IsHead() {
			rc.SetUserValue(originalMethod, string(method))
			rc.Request.Header.SetMethod(http.MethodGet)
		}
		return true
	}
	return false
}

// below reports whether a path is that of a route, which may end with "/*".
func below(path []byte, route string) bool {
	prefix, open := strings.CutSuffix(route, "*")
	if open {
		return bytes.HasPrefix(path, []byte(prefix))
	}
	return string(path) == route
}

// OriginalMethod returns the method that the request was sent with.
func (c *Call) OriginalMethod() string {
	if method, kept := c.Ctx.Context().UserValue(originalMethod).(string); kept {
		return method
	}
	return c.Method()
}

// FromTrustedProxy reports whether the peer is a proxy whose headers are believed.
func (c *Call) FromTrustedProxy() bool {
	return c.server.o.Clients().Proxies.trusts(peerAddress(c.Ctx.Context()))
}
