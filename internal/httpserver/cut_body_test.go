package httpserver

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/identity"
)

// A body whose connection ends before it is complete is not taken for a shorter one: a list of
// blocks would be imported in part, its last address without its last digit.
func TestTruncatedBodyIsRejected(t *testing.T) {
	arrived := strings.Repeat("x", 2*smallBody)
	const head = "POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
	requests := map[string]string{
		"an announced length": head + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(arrived)+1) + arrived,
		"a chunk":             head + fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", len(arrived)+1) + arrived,
		"between two chunks":  head + fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", len(arrived)) + arrived + "\r\n",
		"the size of a chunk": head + fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", len(arrived)) + arrived + "\r\n1",
	}
	ends := map[string]func(*testing.T, *listener, *net.TCPConn){
		"the client sends no more": func(t *testing.T, _ *listener, c *net.TCPConn) {
			if err := c.CloseWrite(); err != nil {
				t.Error(err)
			}
		},
		"the client resets the connection": func(t *testing.T, _ *listener, c *net.TCPConn) {
			if err := errors.Join(c.SetLinger(0), c.Close()); err != nil {
				t.Error(err)
			}
		},
		"the full listener closes the connection": func(_ *testing.T, l *listener, _ *net.TCPConn) {
			for _, c := range l.open() {
				c.Cut()
			}
		},
	}
	for where, request := range requests {
		for how, end := range ends {
			for _, path := range []string{"/held", "/streamed"} {
				t.Run(where+", "+how+", "+path, func(t *testing.T) {
					reading, failed := make(chan bool, 1), make(chan error, 1)
					l, dial := serveChecks(t, nil,
						Route{Listener: Checks, Method: "POST", Path: "/held", Access: identity.Check, Handler: func(c *Call) error {
							reading <- true
							_, err := c.ReadBody(MaxBatchBody)
							failed <- err
							return err
						}},
						Route{Listener: Checks, Method: "POST", Path: "/streamed", Access: identity.Check, Handler: func(c *Call) error {
							from := BodyReader(c.Ctx.Context(), 0)
							_, err := io.CopyN(io.Discard, from, int64(len(arrived)))
							reading <- true
							if err == nil {
								_, err = io.Copy(io.Discard, from)
							}
							failed <- err
							return err
						}},
					)
					there := dial().(*net.TCPConn)
					if _, err := fmt.Fprintf(there, request, path); err != nil {
						t.Fatal(err)
					}
					<-reading
					end(t, l, there)
					if err := <-failed; err == nil {
						t.Error("the handler has got a whole body")
					}
				})
			}
		}
	}
}
