package fibermw_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/recover"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/client/fibermw"
	"github.com/stint-dev/stint/test/servers"
)

// What a request holds is settled when its answer has ended: written, streamed, failed, panicked, or left by
// its client.
func TestHoldsAreSettledWhenTheAnswerEnds(t *testing.T) {
	c := shared(t)
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Use(recover.New(), fibermw.New(fibermw.Config{Client: c, Key: func(c *fiber.Ctx) string { return "budget:fiber-" + c.Path()[1:] },
		Cost: func(*fiber.Ctx) int { return 400 }, Used: func(*fiber.Ctx) int64 { return 30 }}))
	left := make(chan struct{})
	stream := func(settles bool, until <-chan struct{}) fiber.Handler {
		return func(c *fiber.Ctx) error {
			usage := fibermw.UsageOf(c)
			ctx := c.UserContext()
			c.Context().SetBodyStreamWriter(func(w *bufio.Writer) {
				for i := 0; i < 3 || until != nil; i++ {
					fmt.Fprintln(w, "a line of the answer")
					if w.Flush() != nil {
						close(left)
						break
					}
				}
				if settles {
					_, _ = usage.Settle(ctx, 70)
				}
			})
			return nil
		}
	}
	app.Get("/plain", func(c *fiber.Ctx) error { return c.SendString("done") })
	app.Get("/fails", func(*fiber.Ctx) error { return errors.New("broken") })
	app.Get("/panics", func(*fiber.Ctx) error { panic("broken") })
	app.Get("/streams", stream(false, nil))
	app.Get("/settles", stream(true, nil))
	app.Get("/gone", stream(false, left))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = app.Listener(l) }()
	t.Cleanup(func() { _ = app.Shutdown() })
	for path, used := range map[string]int{"plain": 30, "fails": 30, "panics": 0, "streams": 400, "settles": 70, "gone": 400} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+"/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if path == "gone" {
			_ = response.Body.Close() // before its end
			<-left
		} else {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
		servers.Await(t, path+" is settled", func() bool {
			d, err := c.Check(t.Context(), client.Check{Key: "budget:fiber-" + path, Cost: 1, Peek: true, Detail: client.DetailRules, Fresh: true})
			return err == nil && d.Rules[0].Remaining == 2 && d.Rules[1].Remaining == 1000-used
		})
	}
}
