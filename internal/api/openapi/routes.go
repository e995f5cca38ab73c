package openapi

import (
	"bytes"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

// Routes returns the two routes that describe routes: /openapi.json and /docs.
func Routes(version string, routes []Route) []Route {
	return []Route{
		{Route: httpserver.Route{Listener: httpserver.Admin, Method: http.MethodGet, Path: "/openapi.json", Access: identity.Public,
			Handler: func(c *httpserver.Call) error { return sendDocument(c, version, routes) }}},
		{Route: httpserver.Route{Listener: httpserver.Admin, Method: http.MethodGet, Path: "/docs", Access: identity.Public,
			Handler: func(c *httpserver.Call) error { return sendPage(c, version, routes) }}},
	}
}

func sendDocument(c *httpserver.Call, version string, routes []Route) error {
	body, err := json.Marshal(newDocument(version, routes), json.Deterministic(true))
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return c.Send(body)
}

func sendPage(c *httpserver.Call, version string, routes []Route) error {
	if err := c.ParseQuery().Err(); err != nil {
		return err
	}
	var page bytes.Buffer
	if err := docsTemplate.Execute(&page, newPage(newDocument(version, routes), routes)); err != nil {
		return err
	}
	c.Set(fiber.HeaderContentType, fiber.MIMETextHTMLCharsetUTF8)
	c.Set(fiber.HeaderContentSecurityPolicy, docsPolicy)
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	return c.Send(page.Bytes())
}
