package fibermw_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/client/fibermw"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/testnode"
)

// The status is that of fiber's error handler, and of streams too.
func TestStatusesOfAnswersAreReported(t *testing.T) {
	testnode.Shared().Do(t, "PUT", "/v1/policies/fiber-status", `{"match":["fiberstatus:*"],"outcome":"not_found","rules":["1/d"]}`, 201)
	testnode.Shared().Do(t, "PUT", "/v1/policies/fiber-plain", `{"match":["fiberstatus:*"],"rules":["100/d"]}`, 201)
	c := shared(t)
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Use(fibermw.New(fibermw.Config{Client: c, ReportStatus: true, Key: func(c *fiber.Ctx) string { return "fiberstatus:" + c.Path()[1:] }}))
	app.Get("/plain", func(c *fiber.Ctx) error { return c.SendStatus(404) })
	app.Get("/fails", func(*fiber.Ctx) error { return fiber.ErrNotFound })
	app.Get("/streams", func(c *fiber.Ctx) error {
		c.Status(404).Context().SetBodyStreamWriter(func(w *bufio.Writer) { _, _ = w.WriteString("gone") })
		return nil
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = app.Listener(l) }()
	t.Cleanup(func() { _ = app.Shutdown() })
	for _, path := range []string{"plain", "fails", "streams", "nowhere"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+"/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		servers.Await(t, path+" is reported", func() bool {
			d, err := c.Check(t.Context(), client.Check{Key: "fiberstatus:" + path, Peek: true, Fresh: true})
			return err == nil && response.StatusCode == http.StatusNotFound && !d.Allowed && d.Policy == "fiber-status"
		})
	}
}
