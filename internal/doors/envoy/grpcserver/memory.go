package grpcserver

import (
	"unsafe"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Limits of what is kept for calls: of their requests, and of the answers that wait for the
// client, in bytes.
const (
	maxBody     = 512 << 10 // of the body of one request
	maxBuffered = 16 << 20  // of all calls of a connection
	// maxOfServer bounds what all connections keep, and connShare is what each of them may keep
	// beyond that.
	maxOfServer = 64 << 20
	connShare   = 64 << 10
	// plainMemory is what a call of the plain version uses: goroutines and buffers.
	plainMemory = 32 << 10
	// plainRead is what the plain version uses for each Read of a request that is not complete.
	plainRead = 16 << 10
	// plainBodies is how often the plain version copies a request that is complete, and
	// plainCopies how often it holds an answer that waits.
	plainBodies = 2
	plainCopies = 3
	// A call that comes as one message of at most freeMessage bytes counts only once its answer
	// waits for the client, as blockedMemory and the answer.
	freeMessage   = 1 << 10
	blockedMemory = 1 << 10
	// freeOut is how much of what is to be written on a connection does not count.
	freeOut = 16 << 10
)

// keep counts n bytes that are kept until the stream is forgotten. The error is that of a client
// with too many of them.
func (s *stream) keep(n int) error {
	s.kept += n
	if s.conn.count(n) {
		return nil
	}
	return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeEnhanceYourCalm}
}

// release counts n bytes that are no longer kept.
func (s *stream) release(n int) {
	s.kept -= n
	s.conn.count(-n)
}

// count counts n more bytes, and reports whether the connection keeps no more than it may.
func (c *conn) count(n int) bool {
	c.buffered += n
	ofServer := c.server.buffered.Add(int64(n))
	return c.buffered <= maxBuffered && (ofServer <= maxOfServer || c.buffered <= connShare)
}

// countOut counts the buffers of what is to be written.
func (c *conn) countOut() {
	if now := max(0, cap(c.out)+cap(c.freeOut)+c.sending-freeOut); now != c.outKept {
		c.count(now - c.outKept)
		c.outKept = now
	}
}

// outRoom returns how many more bytes may wait to be written: fewer where all connections
// together keep too much.
func (c *conn) outRoom() int {
	most := maxUnsent
	if c.server.buffered.Load() > maxOfServer {
		most = freeOut
	}
	return most - len(c.out)
}

// holdPending counts the answer that waits for the client's window. It frees what the call no
// longer needs. A call whose answer finds no room is reset.
func (s *stream) holdPending() {
	n := blockedMemory + len(s.pending)
	if s.plain {
		n = plainCopies * len(s.pending)
	} else {
		s.call.Message, s.call.Answer, s.call.Metadata = nil, nil, nil
	}
	if n -= s.waiting; n == 0 {
		return
	}
	s.waiting += n
	if s.keep(n) != nil && n > 0 {
		s.refuse()
	}
}

// refuse resets the stream of a client with too many bytes or messages.
func (s *stream) refuse() {
	if s.conn.reset(s.id, http2.ErrCodeEnhanceYourCalm) != nil {
		_ = s.conn.raw.Close() // the reading goroutine ends
	}
}

// dropPending counts an answer that no longer waits.
func (s *stream) dropPending() {
	s.release(s.waiting)
	s.waiting = 0
}

// memoryOf returns how many bytes header fields use.
func memoryOf(fields []hpack.HeaderField) int {
	n := cap(fields) * int(unsafe.Sizeof(hpack.HeaderField{}))
	for i := range fields {
		n += len(fields[i].Name) + len(fields[i].Value)
	}
	return n
}
