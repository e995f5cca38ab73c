package routes

import (
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
)

// ifMatch returns the state that a change expects, etag.New if the header is missing. That is an error
// if change, which begins its message, is not "": "Deleting a policy".
func ifMatch(c *httpserver.Call, change string) (etag.Tag, error) {
	text := strings.TrimSpace(c.Get(fiber.HeaderIfMatch))
	if text == "" && change != "" {
		return "", fault.New(fault.NeedVersion, "%s needs the header If-Match with the ETag of what you have seen, or * for any.", change)
	}
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
