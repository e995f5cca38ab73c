package routes

import (
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
)

// IfMatch returns the state that a change expects, etag.New if the header is missing.
func IfMatch(c *httpserver.Call) (etag.Tag, error) {
	text := strings.TrimSpace(c.Get(fiber.HeaderIfMatch))
	if text == "" || text == "*" {
		return etag.Tag(strings.Clone(text)), nil
	}
	quoted, isQuoted := strings.CutPrefix(text, `"`)
	quoted, isEnded := strings.CutSuffix(quoted, `"`)
	if !isQuoted || !isEnded || quoted == "" || quoted == "*" {
		quoted = `"` // no tag has this value
	}
	return etag.Parse(fiber.HeaderIfMatch, strings.Clone(quoted))
}

// NeedIfMatch is IfMatch for a change of an existing resource, which requires the header.
// change begins the error message for a missing header: "Deleting a policy".
func NeedIfMatch(c *httpserver.Call, change string) (etag.Tag, error) {
	expect, err := IfMatch(c)
	if err == nil && expect == etag.New {
		err = fault.New(fault.NeedVersion, "%s needs the header If-Match with the ETag of what you have seen, or * for any.", change)
	}
	return expect, err
}

// SendTagged answers with a resource and its ETag. With etag.New it sends no ETag.
func SendTagged(c *httpserver.Call, status int, tag etag.Tag, body any) error {
	if tag != etag.New {
		c.Set(fiber.HeaderETag, `"`+string(tag)+`"`)
	}
	return c.SendJSON(status, body)
}
