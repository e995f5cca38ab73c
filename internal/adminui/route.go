package adminui

import (
	"net/http"
	"slices"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

// get returns the route of a page.
func (s *site) get(path string, access identity.Access, h httpserver.Handler) httpserver.Route {
	return s.route(http.MethodGet, path, access, h)
}

// post returns the route of an action.
func (s *site) post(path string, access identity.Access, h httpserver.Handler) httpserver.Route {
	return s.route(http.MethodPost, path, access, h)
}

func (s *site) route(method, path string, access identity.Access, h httpserver.Handler) httpserver.Route {
	return httpserver.Route{
		Listener: httpserver.Admin, Method: method, Path: path, Access: access, Failed: s.failed,
		Streams: method == http.MethodPost && slices.Contains(uploadPaths, path),
		Handler: func(c *httpserver.Call) error {
			setHeaders(c.Ctx)
			return h(c)
		},
	}
}

// contentPolicy lets a page run and load nothing but the files of Stint.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; " +
	"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func setHeaders(c *fiber.Ctx) {
	c.Set(fiber.HeaderContentSecurityPolicy, contentPolicy)
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.Set(fiber.HeaderXFrameOptions, "DENY")
	// Addresses of pages hold keys; no other site is to learn them.
	c.Set(fiber.HeaderReferrerPolicy, "same-origin")
	c.Set("Cross-Origin-Opener-Policy", "same-origin")
	c.Set("Cross-Origin-Resource-Policy", "same-origin")
	c.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
}

// seeOther sends the browser on to a page after a change.
func (s *site) seeOther(c *httpserver.Call, target string) error {
	if isHTMX(c.Ctx) {
		c.Set("HX-Redirect", target)
		return c.SendStatus(http.StatusNoContent)
	}
	return c.Redirect(target, http.StatusSeeOther)
}

// isHTMX reports whether htmx asks, and wants a part of a page.
func isHTMX(c *fiber.Ctx) bool { return c.Get("HX-Request") == "true" }

// param returns a part of the path. What cannot be anything's name or id is
// nothing there, and no database is asked for it.
func param(c *httpserver.Call, name string) (string, error) {
	value := c.Params(name)
	if value == "" || len(value) > 128 || !isPlain(value) {
		return "", fault.New(fault.NotFound, "There is nothing with that name.")
	}
	return value, nil
}

// isPlain reports whether text is printable ASCII.
func isPlain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}
