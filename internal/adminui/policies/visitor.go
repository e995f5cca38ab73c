package policies

import (
	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/httpserver"
)

// visitorPath is the page that shows what a refused visitor of a site sees; ?decision=limited or
// blocked instead of challenged.
const visitorPath = "/visitor-page"

func (h *Handler) showVisitorPage(c *httpserver.Call) error {
	answer := h.Challenges.Preview(c.Get(fiber.HeaderAcceptLanguage), c.Query("decision"))
	c.Status(answer.Status)
	for _, header := range answer.Headers {
		c.Set(header[0], header[1])
	}
	c.Set(fiber.HeaderContentType, answer.ContentType)
	c.Response().SetBody(answer.Body)
	return nil
}
