package grpcserver

import (
	"unsafe"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Limits of what is kept of requests, in bytes.
const (
	maxBody     = 512 << 10 // of the body of one request
	maxBuffered = 16 << 20  // of all requests of a connection
	// maxOfServer bounds what all connections keep, and connShare is what each of them may keep
	// beyond that.
	maxOfServer = 64 << 20
	connShare   = 64 << 10
	// plainMemory is what a call of the plain version uses: goroutines and buffers.
	plainMemory = 32 << 10
)

// keep counts n bytes that are kept until the stream is forgotten. The error is that of a client
// with too many of them.
func (s *stream) keep(n int) error {
	c := s.conn
	s.kept += n
	c.buffered += n
	ofServer := c.server.buffered.Add(int64(n))
	if c.buffered > maxBuffered || ofServer > maxOfServer && c.buffered > connShare {
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeEnhanceYourCalm}
	}
	return nil
}

// release counts n bytes that are no longer kept.
func (s *stream) release(n int) {
	s.kept -= n
	s.conn.buffered -= n
	s.conn.server.buffered.Add(-int64(n))
}

// memoryOf returns how many bytes header fields use.
func memoryOf(fields []hpack.HeaderField) int {
	n := cap(fields) * int(unsafe.Sizeof(hpack.HeaderField{}))
	for i := range fields {
		n += len(fields[i].Name) + len(fields[i].Value)
	}
	return n
}
