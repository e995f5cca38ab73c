package openapi

import (
	"net/http"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

// Routes returns the two routes that describe routes: /openapi.json and /docs.
func Routes(version string, routes []Route) []Route {
	document := sync.OnceValues(func() ([]byte, error) {
		d, err := newDocument(version, routes)
		if err != nil {
			return nil, err
		}
		return json.Marshal(d, json.Deterministic(true))
	})
	page := sync.OnceValues(func() ([]byte, error) {
		text, err := document()
		if err != nil {
			return nil, err
		}
		return newPage(text)
	})
	return []Route{
		{Route: httpserver.Route{Listener: httpserver.Admin, Method: http.MethodGet, Path: "/openapi.json", Access: identity.Public,
			Handler: func(c *httpserver.Call) error { return sendDocument(c, document) }}},
		{Route: httpserver.Route{Listener: httpserver.Admin, Method: http.MethodGet, Path: "/docs", Access: identity.Public,
			Handler: func(c *httpserver.Call) error { return sendPage(c, page) }}},
	}
}

func sendDocument(c *httpserver.Call, document func() ([]byte, error)) error {
	body, err := document()
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return c.SendShared(body)
}

func sendPage(c *httpserver.Call, page func() ([]byte, error)) error {
	if err := c.ParseQuery().Err(); err != nil {
		return err
	}
	body, err := page()
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderContentType, fiber.MIMETextHTMLCharsetUTF8)
	c.Set(fiber.HeaderContentSecurityPolicy, docsPolicy)
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	return c.SendShared(body)
}
