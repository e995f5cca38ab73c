package httpserver

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/supervise"
)

// Stream sends a response while write produces it. If write fails after the first byte, the
// connection is cut instead of ended normally, so that the client does not take half a file for
// a whole one.
func Stream(c *Call, contentType, filename string, write func(ctx context.Context, w io.Writer) error) error {
	body, err := startStream(c, contentType, write)
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderContentDisposition, `attachment; filename="`+filename+`"`)
	c.SendBody(GuardedBody{body})
	return nil
}

// StreamConfirmed is Stream for responses that are not files. It calls confirm after everything
// except the end of the response was sent, and not if sending failed. If confirm fails, the
// connection is cut, so that the client sees an incomplete response.
func StreamConfirmed(c *Call, contentType string, write func(ctx context.Context, w io.Writer) error, confirm func() error) error {
	body, err := startStream(c, contentType, write)
	if err != nil {
		return err
	}
	c.SendBody(&confirmedBody{GuardedBody: GuardedBody{body}, confirm: confirm})
	return nil
}

// confirmedBody is a body that calls confirm after it was sent. The server calls Close and then
// CloseWithError.
type confirmedBody struct {
	GuardedBody
	confirm func() error
	isRead  bool // to the end
}

// Read implements io.Reader.
func (b *confirmedBody) Read(p []byte) (int, error) {
	n, err := b.GuardedBody.Read(p)
	b.isRead = b.isRead || errors.Is(err, io.EOF)
	return n, err
}

// CloseWithError implements fasthttp.ReadCloserWithError. failed is the reason why sending
// ended early, nil if it did not.
func (b *confirmedBody) CloseWithError(failed error) error {
	if failed == nil && b.isRead {
		return supervise.Call("answer stream", b.confirm)
	}
	return nil
}

// startStream runs write in a goroutine and returns the body after the first byte.
func startStream(c *Call, contentType string, write func(ctx context.Context, w io.Writer) error) (*streamBody, error) {
	reader, writer := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		err := supervise.Call("answer stream", func() error { return write(ctx, writer) })
		if _, panicked := errors.AsType[*supervise.Panic](err); panicked {
			err = fault.New(fault.Unavailable, "Writing the answer failed.")
		}
		writer.CloseWithError(err)
	}()
	// An error before the first byte becomes an ordinary problem.
	first := make([]byte, 1)
	n, err := io.ReadFull(reader, first)
	if err != nil && err != io.EOF {
		cancel()
		return nil, err
	}
	c.Status(http.StatusOK)
	c.Set(fiber.HeaderContentType, contentType)
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	return &streamBody{head: first[:n], rest: reader, conn: c.Ctx.Context().Conn(), cancel: cancel, access: c.WatchAccess()}, nil
}

// GuardedBody is a body in which a panic ends only its own response. The server reads and
// closes it after the handler returned, where nothing else recovers.
type GuardedBody struct{ Body io.ReadCloser }

// Read implements io.Reader.
func (g GuardedBody) Read(p []byte) (n int, err error) {
	err = supervise.Call("answer stream", func() (err error) {
		n, err = g.Body.Read(p)
		return err
	})
	return n, err
}

// Close implements io.Closer.
func (g GuardedBody) Close() error { return supervise.Call("answer stream", g.Body.Close) }

// streamBody is the body that the server reads while it sends.
type streamBody struct {
	head   []byte
	rest   *io.PipeReader
	conn   net.Conn
	cancel context.CancelFunc
	access *AccessWatch
}

// Read renews the write deadline of the connection for every piece: a long response is not a
// slow one.
func (b *streamBody) Read(p []byte) (int, error) {
	if b.access.Ended() {
		return 0, ErrAccessEnded
	}
	if err := b.conn.SetWriteDeadline(time.Now().Add(WriteTimeout)); err != nil {
		return 0, err
	}
	if len(b.head) > 0 {
		n := copy(p, b.head)
		b.head = b.head[n:]
		return n, nil
	}
	return b.rest.Read(p)
}

// Close stops the writer, for example after the client disconnected.
func (b *streamBody) Close() error {
	b.cancel()
	return b.rest.Close()
}
