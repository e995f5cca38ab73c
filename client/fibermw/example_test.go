package fibermw_test

import (
	"fmt"
	"log"
	"net/http/httptest"
	"os"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/client/fibermw"
)

func ExampleNew() {
	stint, err := client.New(os.Getenv("STINT_CHECK_URL"), client.WithOutage(client.FailOpen))
	if err != nil {
		log.Fatal(err)
	}
	app := fiber.New()
	app.Use(fibermw.New(fibermw.Config{Client: stint, Policy: "visitors"}))
	app.Get("/", func(c *fiber.Ctx) error { return c.SendString("welcome") })

	for status := fiber.StatusOK; status == fiber.StatusOK; {
		response, err := app.Test(httptest.NewRequest("GET", "/", nil), -1)
		if err != nil {
			log.Fatal(err)
		}
		response.Body.Close()
		if status = response.StatusCode; status != fiber.StatusOK {
			fmt.Println(status, response.Header.Get("RateLimit-Policy"))
		}
	}
	// Output: 429 "3/1d";q=3;w=86400
}
