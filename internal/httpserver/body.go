package httpserver

import (
	"bytes"
	"errors"
	"io"
	"net"
	"time"

	"github.com/valyala/fasthttp"
)

// Errors of ReadBody.
var (
	ErrBodyTooLarge = errors.New("the body is larger than allowed")
	ErrBodyTimeout  = errors.New("the body did not arrive in time")
	ErrBodyBroken   = errors.New("the body ended early or could not be read")
)

// ReadBody returns the whole body of a request, which may have at most max
// bytes. It reads the connection once: later calls return the same bytes. After
// an error the connection is closed.
func ReadBody(rc *fasthttp.RequestCtx, max int) ([]byte, error) {
	request := &rc.Request
	if request.Header.ContentLength() > max {
		rc.SetConnectionClose()
		return nil, ErrBodyTooLarge
	}
	if !request.IsBodyStream() {
		body := request.Body()
		if len(body) > max {
			return nil, ErrBodyTooLarge
		}
		return body, nil
	}
	body, err := io.ReadAll(io.LimitReader(request.BodyStream(), int64(max)+1))
	var slow net.Error
	switch {
	case err == nil && len(body) <= max:
		request.SetBodyRaw(body) // it takes the place of the stream, which has ended
		return body, nil
	case err == nil:
		err = ErrBodyTooLarge
	case errors.As(err, &slow) && slow.Timeout():
		err = ErrBodyTimeout
	default:
		err = ErrBodyBroken
	}
	rc.SetConnectionClose()
	return nil, err
}

// BodyReader returns the body of a request as it arrives. Each piece may take
// up to timeout: a long body is not a slow one.
func BodyReader(rc *fasthttp.RequestCtx, timeout time.Duration) io.Reader {
	if !rc.Request.IsBodyStream() {
		return bytes.NewReader(rc.Request.Body())
	}
	return &bodyStream{rc.Request.BodyStream(), rc.Conn(), timeout}
}

type bodyStream struct {
	from    io.Reader
	conn    net.Conn
	timeout time.Duration
}

// Read reads a piece.
func (b *bodyStream) Read(p []byte) (int, error) {
	if err := b.conn.SetReadDeadline(time.Now().Add(b.timeout)); err != nil {
		return 0, err
	}
	return b.from.Read(p)
}

// maxUnread is how much of a body that its handler left unread is read all the
// same, so that the connection can serve the next request.
const maxUnread = 256 << 10

// FinishBody must run after every handler of a server that streams bodies. It
// reads what the handler left of the body, or has the connection closed after
// the answer where that is much: else what is left would be taken for the next
// request.
func FinishBody(rc *fasthttp.RequestCtx) {
	if !rc.Request.IsBodyStream() {
		return
	}
	if _, err := io.CopyN(io.Discard, rc.Request.BodyStream(), maxUnread+1); !errors.Is(err, io.EOF) {
		rc.SetConnectionClose()
	}
}
