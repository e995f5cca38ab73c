package httpserver

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// Errors of ReadBody.
var (
	ErrBodyTooLarge = errors.New("the body is larger than allowed")
	ErrBodyTimeout  = errors.New("the body did not arrive in time")
	ErrBodyBroken   = errors.New("the body ended early or could not be read")
	ErrBodiesFull   = errors.New("too many large bodies are being read at the moment")
)

const (
	// maxBodies bounds the bytes of the bodies that the requests of a listener hold at a time,
	// but for smallBody of each: as many as connlimit allows have connections.
	maxBodies = 64 << 20
	smallBody = 8 << 10 // what fasthttp reads of a body before it is asked for
	firstRoom = 512     // for a body whose length is not said
)

// bodyBudget is what the bodies of a listener hold.
type bodyBudget struct{ held atomic.Int64 }

// take reports whether there is room for more bytes, which are then held.
func (b *bodyBudget) take(more int64) bool {
	if b.held.Add(more) <= maxBodies {
		return true
	}
	b.held.Add(-more)
	return false
}

// bodyHolder is a connection whose requests' bodies are held.
type bodyHolder interface {
	holdBody(size int) bool
	releaseBody()
}

// holdBody reports whether the body of the request may take so many bytes.
func (c *conn) holdBody(size int) bool {
	more := max(0, int64(size)-smallBody) - c.body
	if more <= 0 {
		return true
	}
	if !c.listener.bodies.take(more) {
		return false
	}
	c.body += more
	return true
}

// releaseBody says that the request's body is not needed any more.
func (c *conn) releaseBody() {
	if c.body > 0 {
		c.listener.bodies.held.Add(-c.body)
		c.body = 0
	}
}

// ReadBody returns the whole body of a request, which may have at most max
// bytes. It reads the connection once: later calls return the same bytes. After
// an error the connection is closed. It makes room as the bytes come, whatever length was
// announced.
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
	body, err := readBody(rc, max)
	if err == nil && accessEnded(rc) {
		err = ErrAccessEnded
	}
	if err == nil {
		request.SetBodyRaw(body) // it takes the place of the stream, which has ended
		return body, nil
	}
	rc.SetConnectionClose()
	return nil, err
}

// readBody reads the stream of a body.
func readBody(rc *fasthttp.RequestCtx, max int) ([]byte, error) {
	holder, _ := rc.Conn().(bodyHolder)
	room, most := firstRoom, max
	if length := rc.Request.Header.ContentLength(); length >= 0 {
		most = min(max, length)
		room = min(length, smallBody) + 1 // the last read finds the end
	}
	body := make([]byte, 0, room)
	for from := rc.Request.BodyStream(); ; {
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		var slow net.Error
		switch {
		case len(body) > max:
			return nil, ErrBodyTooLarge
		case errors.Is(err, io.EOF):
			return body, nil
		case errors.As(err, &slow) && slow.Timeout():
			return nil, ErrBodyTimeout
		case err != nil:
			return nil, ErrBodyBroken
		}
		if len(body) == cap(body) {
			room := min(2*cap(body), most+1)
			if holder != nil && !holder.holdBody(room) {
				return nil, ErrBodiesFull
			}
			body = append(make([]byte, 0, room), body...)
		}
	}
}

// BodyReader returns the body of a request as it arrives. Each piece may take
// up to timeout, unless that is 0: a long body is not a slow one. Once the access of the
// request has ended, reading fails with ErrAccessEnded.
func BodyReader(rc *fasthttp.RequestCtx, timeout time.Duration) io.Reader {
	if !rc.Request.IsBodyStream() {
		return bytes.NewReader(rc.Request.Body())
	}
	return &bodyStream{rc, timeout}
}

type bodyStream struct {
	rc      *fasthttp.RequestCtx
	timeout time.Duration
}

// Read reads a piece. The access is looked at when it has come: also with the last, so that
// nothing is changed by an upload of somebody who was deleted since it began.
func (b *bodyStream) Read(p []byte) (int, error) {
	if b.timeout > 0 {
		if err := b.rc.Conn().SetReadDeadline(time.Now().Add(b.timeout)); err != nil {
			return 0, err
		}
	}
	n, err := b.rc.Request.BodyStream().Read(p)
	if accessEnded(b.rc) {
		return 0, ErrAccessEnded
	}
	return n, err
}

// maxUnread is how much of a body that its handler left unread is read all the
// same, so that the connection can serve the next request: gateways send the bodies of their
// requests along, of which an answer needs nothing.
const maxUnread = MaxBatchBody

// FinishBody must run after every handler of a server that streams bodies, which needs the
// body no longer. It reads what the handler left of the body, or has the connection closed after
// the answer where that is much: else what is left would be taken for the next
// request.
func FinishBody(rc *fasthttp.RequestCtx) {
	if holder, is := rc.Conn().(bodyHolder); is {
		holder.releaseBody()
	}
	if !rc.Request.IsBodyStream() {
		return
	}
	if _, err := io.CopyN(io.Discard, rc.Request.BodyStream(), maxUnread+1); !errors.Is(err, io.EOF) {
		rc.SetConnectionClose()
	}
}
