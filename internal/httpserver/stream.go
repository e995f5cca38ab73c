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

// Stream answers with what write writes, as it comes. Where write fails in the
// middle, the connection is cut instead of being ended in good order, so that
// half a file is not taken for a whole one.
func Stream(c *Call, contentType, filename string, write func(ctx context.Context, w io.Writer) error) error {
	body, err := startStream(c, contentType, write)
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderContentDisposition, `attachment; filename="`+filename+`"`)
	c.SendBody(GuardedBody{body})
	return nil
}

// StreamConfirmed is Stream for answers that are no files. confirm is called when all
// was sent but the end of the answer, and not where sending failed; where confirm
// fails, the connection is cut, so that the client takes the answer for broken off.
func StreamConfirmed(c *Call, contentType string, write func(ctx context.Context, w io.Writer) error, confirm func() error) error {
	body, err := startStream(c, contentType, write)
	if err != nil {
		return err
	}
	c.SendBody(&confirmedBody{GuardedBody: GuardedBody{body}, confirm: confirm})
	return nil
}

// confirmedBody is a body whose sender wants to know that it was sent. The server calls
// Close and then CloseWithError.
type confirmedBody struct {
	GuardedBody
	confirm func() error
	isRead  bool // to its end
}

// Read implements io.Reader.
func (b *confirmedBody) Read(p []byte) (int, error) {
	n, err := b.GuardedBody.Read(p)
	b.isRead = b.isRead || errors.Is(err, io.EOF)
	return n, err
}

// CloseWithError implements fasthttp.ReadCloserWithError: failed is why sending ended
// early, nil where it did not.
func (b *confirmedBody) CloseWithError(failed error) error {
	if failed == nil && b.isRead {
		return supervise.Call("answer stream", b.confirm)
	}
	return nil
}

// startStream has write write and returns the body once it has begun.
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
	// What fails before the first byte is a problem like any other.
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

// GuardedBody is a body whose panics end only its own answer: the server reads
// and closes it after the handler, where nothing else recovers.
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

// streamBody is read by the server while it sends.
type streamBody struct {
	head   []byte
	rest   *io.PipeReader
	conn   net.Conn
	cancel context.CancelFunc
	access *AccessWatch
}

// Read gives the connection its time to write again with every piece: a long
// answer is no slow one.
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

// Close ends the writer when the client has gone.
func (b *streamBody) Close() error {
	b.cancel()
	return b.rest.Close()
}
