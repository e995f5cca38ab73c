package grpcserver

import (
	"context"
	"encoding/binary"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// stream is one call. The connection's mu guards it, except for the fields that only the
// answering goroutine uses.
type stream struct {
	conn   *conn
	id     uint32
	window int64 // how much may be sent
	// requested means that the request is complete, busy that it is being answered, gone that
	// the response is no longer wanted.
	requested, busy, gone bool
	isOld                 bool // existed at the last sweep
	isGRPC                bool
	usual                 bool // a call for Options.Answer
	streaming             bool // the method reads messages as they arrive
	longLived             bool // see Options.LongLived
	call                  Call

	body []byte // unread part of a request that arrived in several pieces
	got  int64
	room int // how much the client may still send
	owed int // how much room must be restored by a window update
	kept int // bytes that count in conn.buffered, waiting included

	pending   []byte // unsent part of the response
	trailers  []byte // header block of the trailers, nil for none
	ending    bool   // nothing follows pending and trailers
	isBlocked bool   // it is in conn.blocked
	waiting   int    // bytes counted by holdPending

	// Only for the plain version.
	fields   []hpack.HeaderField
	length   int64 // of the request according to its header, -1 if the header does not say
	bodyErr  error
	reads    int   // since the last write of a response
	messages int   // begun
	answered int   // of them, when the last write of a response was accepted
	unread   int64 // rest of a partly read message
	plain    bool
	changed  sync.Cond // the request, pending or the end has changed
	cancel   context.CancelFunc
}

var streams = sync.Pool{New: func() any { return new(stream) }}

// newStream returns an open stream.
func newStream(c *conn, id uint32) *stream {
	s := streams.Get().(*stream)
	s.conn, s.id, s.window, s.length, s.room = c, id, c.initial, -1, streamWindow
	s.call.stream = s
	return s
}

// recycle makes a stream that is no longer referenced available for reuse.
func (s *stream) recycle() {
	if s.plain || s.isBlocked {
		return
	}
	message, answer, pending := s.call.Message[:0], s.call.Answer[:0], s.pending[:0]
	*s = stream{pending: pending}
	s.call.Message, s.call.Answer = message, answer
	if cap(message)+cap(answer)+cap(pending) < maxFrame {
		streams.Put(s)
	}
}

// readHeaders reads the headers of a request, and reports whether they are valid.
func (s *stream) readHeaders(f *http2.MetaHeadersFrame) bool {
	s.fields = f.Fields
	var method, scheme, path, contentType string
	usual := true
	for i := range f.Fields {
		switch name, value := f.Fields[i].Name, f.Fields[i].Value; name {
		case ":method":
			method = value
		case ":scheme":
			scheme = value
		case ":path":
			path = value
		case "content-type":
			contentType = value
		case "te":
			if value != "trailers" {
				return false
			}
		case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
			return false
		case "content-length":
			length, err := strconv.ParseUint(value, 10, 62)
			if err != nil {
				return false
			}
			s.length = int64(length) //nolint:gosec // at most 62 bits
		case "grpc-encoding":
			usual = usual && value == "identity"
		case "grpc-timeout":
			usual = usual && isTimeout(value)
		default:
			s.call.addMetadata(name, value)
		}
	}
	s.isGRPC = method == http.MethodPost && strings.HasPrefix(contentType, "application/grpc")
	at := slices.Index(s.conn.server.o.Methods, path)
	s.usual = usual && at >= 0 && s.isGRPC && (contentType == "application/grpc" || contentType == "application/grpc+proto")
	if at >= 0 {
		s.call.Method = s.conn.server.o.Methods[at]
	}
	s.streaming = s.isGRPC && at < 0 && !slices.Contains(s.conn.server.o.SingleRequest, path)
	s.longLived = slices.Contains(s.conn.server.o.LongLived, path)
	return method != "" && scheme != "" && path != "" && method != http.MethodConnect
}

// isTimeout reports whether text is a valid grpc-timeout. The timeout has no effect: the gate
// has its own deadline, and a caller who has disconnected is charged anyway.
func isTimeout(text string) bool {
	last := len(text) - 1
	if last < 1 || last > 8 || !slices.Contains([]byte("HMSmun"), text[last]) {
		return false
	}
	for i := range last {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return true
}

// messagePrefix is the length of the prefix of a message: the compression flag and the
// message's length.
const messagePrefix = 5

// takeData processes a part of the request. size is its length with padding.
func (s *stream) takeData(f *http2.DataFrame, size int) error {
	c, data := s.conn, f.Data()
	isFirst := s.got == 0
	s.got += int64(len(data))
	if f.StreamEnded() && isFirst && s.isUsual(data) {
		s.requested = true
		if len(data) > freeMessage {
			if err := s.keep(len(data)); err != nil {
				return err
			}
		}
		s.startUsual(append(s.call.Message[:0], data[messagePrefix:]...))
		return nil
	}
	mistake := http2.StreamError{StreamID: s.id, Code: http2.ErrCodeFlowControl}
	if s.room -= size; s.room < 0 {
		return mistake
	}
	s.owed += size - len(data)
	if s.got > maxBody {
		mistake.Code = http2.ErrCodeEnhanceYourCalm
		return mistake
	}
	if err := s.keep(len(data)); err != nil {
		return err
	}
	s.body = append(s.body, data...)
	switch {
	case f.StreamEnded():
		return s.finishRequest()
	case s.length >= 0 && s.got > s.length:
		mistake.Code = http2.ErrCodeProtocol
		return mistake
	case s.plain:
		s.changed.Broadcast()
		return nil
	case s.streaming && (s.length < 0 || s.got > streamWindow-maxFrame), s.isGRPC && messageLength(s.body) > int64(c.server.o.MaxMessage):
		return s.startPlain() // which refuses a message that is too long as early as possible
	}
	// It is answered when it is complete, so that errors in the rest are noticed.
	s.owed += len(data)
	return s.openWindow()
}

// openWindow restores the client's window by the amount received, if that is worth a frame.
func (s *stream) openWindow() error {
	if s.owed <= streamWindow/2 {
		return nil
	}
	more := s.owed
	s.room += more
	s.owed = 0
	return s.conn.framer.WriteWindowUpdate(s.id, uint32(more)) //nolint:gosec // at most the window
}

// messageLength returns the announced length of the first message in body, -1 if body is too
// short.
func messageLength(body []byte) int64 {
	if len(body) < messagePrefix {
		return -1
	}
	return int64(binary.BigEndian.Uint32(body[1:]))
}

// isUsual reports whether the request is a call for Options.Answer, and body contains exactly
// its one message.
func (s *stream) isUsual(body []byte) bool {
	return s.usual && !s.plain && len(body) >= messagePrefix && body[0] == 0 && messageLength(body) == int64(len(body)-messagePrefix) &&
		len(body)-messagePrefix <= s.conn.server.o.MaxMessage && (s.length < 0 || s.length == s.got)
}

// startUsual adds a call to those that are answered together.
func (s *stream) startUsual(message []byte) {
	s.busy = true
	s.release(memoryOf(s.fields))
	s.fields = nil
	s.call.Message = message
	s.conn.batch = append(s.conn.batch, &s.call)
}

// finishRequest is called when the client has sent the whole request.
func (s *stream) finishRequest() error {
	s.requested = true
	if s.length >= 0 && s.length != s.got {
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeProtocol}
	}
	if s.isUsual(s.body) {
		s.startUsual(s.body[messagePrefix:])
		s.body = nil
		return nil
	}
	return s.startPlain()
}

// takeTrailers processes the trailers of a request, which are ignored.
func (s *stream) takeTrailers(f *http2.MetaHeadersFrame) error {
	mistake := http2.StreamError{StreamID: s.id, Code: http2.ErrCodeProtocol}
	switch {
	case s.gone:
		return s.conn.credit.spend()
	case s.requested:
		mistake.Code = http2.ErrCodeStreamClosed
		return mistake
	case !f.StreamEnded() || len(f.PseudoFields()) > 0:
		return mistake
	}
	return s.finishRequest()
}

// startPlain makes the plain version answer, if it has not started yet.
func (s *stream) startPlain() error {
	c := s.conn
	if s.plain {
		s.changed.Broadcast() // wakes the reader of the request
		return nil
	}
	if s.keep(plainMemory+plainBodies*len(s.body)) != nil {
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeRefusedStream} // the client may repeat the call
	}
	s.changed.L = &c.mu
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.WithValue(c.ctx, http.LocalAddrContextKey, c.net.LocalAddr()))
	s.plain, s.busy = true, true
	c.server.HandOver(func() { s.servePlain(ctx) })
	return nil
}

// end ends a stream that gets no response any more.
func (s *stream) end(why error) {
	if s.gone {
		return
	}
	s.gone = true
	if s.bodyErr == nil {
		s.bodyErr = why
	}
	if s.cancel != nil {
		s.cancel()
	}
	if s.plain {
		s.changed.Broadcast()
	}
	if !s.busy {
		s.forget()
	}
}

// forget removes a stream that will not be answered.
func (s *stream) forget() {
	delete(s.conn.streams, s.id)
	s.release(s.kept)
	s.waiting = 0
	s.conn.wasUsed = s.conn.wasUsed || s.requested
	if s.isBlocked {
		s.unblock()
	}
	s.recycle()
}

// unblock removes a stream from conn.blocked.
func (s *stream) unblock() {
	s.isBlocked = false
	c := s.conn
	at := slices.Index(c.blocked, s)
	c.blocked = slices.Delete(c.blocked, at, at+1)
}

// send sends as much of the response as the client's window allows. sendBlocked sends the rest
// later.
func (s *stream) send() {
	c := s.conn
	for len(s.pending) > 0 {
		n := min(int64(len(s.pending)), s.window, c.window, maxFrame, int64(c.outRoom()))
		if n <= 0 {
			s.holdPending()
			if s.gone {
				if s.ending { // otherwise servePlain forgets it
					s.busy = false
					s.forget()
				}
				return
			}
			if !s.isBlocked {
				s.isBlocked = true
				c.blocked = append(c.blocked, s)
			}
			s.busy = s.busy && !s.ending
			return
		}
		_ = c.framer.WriteData(s.id, s.ending && s.trailers == nil && int(n) == len(s.pending), s.pending[:n]) // a buffer never fails
		c.answered = true
		s.window -= n
		c.window -= n
		s.pending = s.pending[:copy(s.pending, s.pending[n:])]
	}
	s.dropPending()
	if !s.ending {
		s.changed.Broadcast() // only the plain version writes in parts
		return
	}
	if s.trailers != nil {
		c.writeHeaders(s.id, s.trailers, true)
	}
	if s.busy = true; !s.requested { // busy, so that reset does not forget the stream
		_ = c.reset(s.id, http2.ErrCodeNo) // the rest of the request will not be read; a buffer never fails
	}
	s.busy = false
	s.forget()
}

// sendBlocked sends what the client's window now allows.
func (c *conn) sendBlocked() {
	if len(c.blocked) == 0 || c.window <= 0 || c.outRoom() <= 0 {
		return
	}
	blocked := c.blocked
	c.blocked = blocked[:0] // send appends to it, behind the elements already read
	for _, s := range blocked {
		s.isBlocked = false
		if !s.gone {
			s.send()
		}
	}
	clear(blocked[len(c.blocked):])
}

// writeHeaders writes a header block, in several frames if it is large.
func (c *conn) writeHeaders(id uint32, block []byte, isLast bool) {
	c.answered = true
	n := min(len(block), maxFrame)
	_ = c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block[:n], EndHeaders: n == len(block), EndStream: isLast}) // a buffer never fails
	for block = block[n:]; len(block) > 0; block = block[n:] {
		n = min(len(block), maxFrame)
		_ = c.framer.WriteContinuation(id, n == len(block), block[:n]) // a buffer never fails
	}
}
