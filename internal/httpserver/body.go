package httpserver

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/stint-dev/stint/internal/fault"
)

// Errors of ReadBody.
var (
	ErrBodyTooLarge = errors.New("the body is larger than allowed")
	ErrBodyTimeout  = errors.New("the body did not arrive in time")
	ErrBodyBroken   = errors.New("the body ended early or could not be read")
	ErrBodiesFull   = errors.New("too many large bodies are being read at the moment")
)

const (
	// maxBodies bounds the bytes of all request bodies that a listener holds at a time, and of all
	// responses that wait for their clients to take them. The first smallBody bytes of each do not
	// count; connlimit bounds the connections.
	maxBodies = 64 << 20
	smallBody = 8 << 10 // what fasthttp reads of a body before the handler reads it
	firstRoom = 512     // initial buffer for a body of unknown length
)

// bodyBudget counts the bytes of the bodies that a listener holds.
type bodyBudget struct{ held atomic.Int64 }

// take reserves more bytes, and reports whether the budget allows them.
func (b *bodyBudget) take(more int64) bool {
	if b.held.Add(more) <= maxBodies {
		return true
	}
	b.held.Add(-more)
	return false
}

// bodyHolder is a connection that counts the body of its request in a bodyBudget.
type bodyHolder interface {
	holdBody(size int) bool
	releaseBody()
}

// holdBody reserves size bytes for the body of the request, and reports whether they are
// allowed.
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

// releaseBody frees what holdBody reserved; the request's body is no longer needed.
func (c *conn) releaseBody() {
	if c.body > 0 {
		c.listener.bodies.held.Add(-c.body)
		c.body = 0
	}
}

// holdAnswer reserves size bytes for a response, until the connection reads on or is closed, and
// reports whether they are allowed. If they are not, clients that do not take their responses make
// room: their connections are closed. With must they are reserved even if that is not enough.
func (c *conn) holdAnswer(size int, must bool) bool {
	more := int64(size) - smallBody
	if more <= 0 {
		return true
	}
	if !c.listener.answers.take(more) && !(c.listener.closeUnread() && c.listener.answers.take(more)) {
		if !must {
			return false
		}
		c.listener.answers.held.Add(more)
	}
	c.answer.Add(more)
	return true
}

// answerHolder is a connection that counts its responses in a bodyBudget.
type answerHolder interface {
	holdAnswer(size int, must bool) bool
}

// errAnswersFull refuses a request that changes nothing: its response has no room.
var errAnswersFull = fault.New(fault.Unavailable, "Too many large answers wait for their clients at the moment; ask again, for less at a time.")

const (
	streamRoom = 256 << 10 // what the writer of a stream holds while its client does not read
	gzipRoom   = 800 << 10 // the state of a compressed stream
)

// takeRoom reserves size bytes for a stream, and reports whether there is room.
func (c *Call) takeRoom(size int) bool {
	holder, is := c.Ctx.Context().Conn().(answerHolder)
	return !is || holder.holdAnswer(size+smallBody, false)
}

// sharedBody marks a request whose response is in memory anyway; see SendShared.
type sharedBody struct{}

// SendShared sends a body that is in memory whether it waits for its client or not.
func (c *Call) SendShared(body []byte) error {
	c.Ctx.Context().SetUserValue(sharedBody{}, true)
	return c.Send(body)
}

// releaseAnswer frees what holdAnswer reserved.
func (c *conn) releaseAnswer() { c.listener.answers.held.Add(-c.answer.Swap(0)) }

// closeUnread closes the connections whose clients have not taken a part of a large response for
// maxWrite, and reports whether there were any.
func (l *listener) closeUnread() (found bool) {
	for _, c := range l.open() {
		if c.answer.Load() > 0 && c.isUnread() {
			_ = c.Conn.Close() // the write in progress fails, and the goroutine that writes removes it
			c.releaseAnswer()
			found = true
		}
	}
	return found
}

// ReadBody returns the whole body of a request, which may have at most max bytes. It reads the
// connection once: later calls return the same bytes. After an error the connection is closed.
// The buffer grows with the bytes received, not with the announced length.
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
		request.SetBodyRaw(body) // replaces the stream, which has been read to its end
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
		room = min(length, smallBody) + 1 // one more byte, so that the last read finds io.EOF
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

// BodyReader returns the body of a request as it arrives. timeout bounds each read, since a
// long body is not a slow one; 0 means no timeout. Reading fails with ErrAccessEnded after the
// request's access has ended.
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

// Read reads the next bytes. It checks the access after each read, the last one included, so
// that an upload changes nothing if its user was deleted after it began.
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

// maxUnread is how much of an unread body is discarded so that the connection can serve the
// next request. Gateways forward the bodies of their requests, which no response needs.
const maxUnread = MaxBatchBody

// FinishBody must run after every handler of a server that streams bodies, when the handler no
// longer needs the body. It discards the rest of the body. If the rest exceeds maxUnread, it
// has the connection closed after the response, so that the rest is not read as the next
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
