// Command empty answers every POST /v1/check with one small JSON body: the most
// that HTTP and fiber give on a machine, beside which make bench puts Stint.
package main

import (
	"log"
	"os"

	"github.com/gofiber/fiber/v2"
)

func main() {
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	body := []byte(`{"allowed":true}`)
	app.Post("/v1/check", func(c *fiber.Ctx) error {
		c.Response().Header.SetContentType(fiber.MIMEApplicationJSON)
		return c.Send(body)
	})
	log.Fatal(app.Listen(os.Args[1]))
}
