// Command empty answers every POST /v1/check with one small JSON body: the most
// that HTTP and fiber give on a machine, beside which make bench puts Stint. With a
// file that has an answer as HTTP writes it, it sends that answer's status, headers and body
// instead.
package main

import (
	"bufio"
	"bytes"
	"io"
	"log"
	"net/http"
	"os"

	"github.com/gofiber/fiber/v2"
)

func main() {
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	answer := answerLittle
	if len(os.Args) > 2 {
		var err error
		if answer, err = answerOf(os.Args[2]); err != nil {
			log.Fatal(err)
		}
	}
	app.Post("/v1/check", answer)
	log.Fatal(app.Listen(os.Args[1]))
}

var little = []byte(`{"allowed":true}`)

func answerLittle(c *fiber.Ctx) error {
	c.Response().Header.SetContentType(fiber.MIMEApplicationJSON)
	return c.Send(little)
}

// answerOf returns a handler that sends the answer in a file. Date and Content-Length are
// fasthttp's.
func answerOf(file string) (func(*fiber.Ctx) error, error) {
	text, err := os.ReadFile(file) //nolint:gosec // the benchmark names it
	if err != nil {
		return nil, err
	}
	answer, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(text)), nil)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	status, header, contentType := answer.StatusCode, answer.Header, answer.Header.Get(fiber.HeaderContentType)
	for _, name := range []string{fiber.HeaderContentType, fiber.HeaderContentLength, fiber.HeaderDate} {
		header.Del(name)
	}
	return func(c *fiber.Ctx) error {
		r := c.Response()
		r.SetStatusCode(status)
		r.Header.SetContentType(contentType)
		for name, values := range header {
			r.Header.Set(name, values[0])
		}
		return c.Send(body)
	}, nil
}
