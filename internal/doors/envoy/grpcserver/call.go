package grpcserver

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Call is a call of one of Options.Methods. It must not be used after Finish.
type Call struct {
	Method  string
	Message []byte    // message of the request, in protobuf
	Read    time.Time // when it was received
	// Metadata are the call's metadata of Options.Metadata; nil for none.
	Metadata metadata.MD

	// The response, set by Options.Answer: the encoded message, or the error.
	Answer []byte
	Err    *status.Status

	stream *stream
}

// Peer returns the address of the peer, the unspecified address if it has none.
func (c *Call) Peer() netip.Addr { return c.stream.conn.peer }

// RemoteAddr returns the address and port of the peer.
func (c *Call) RemoteAddr() net.Addr { return c.stream.conn.net.RemoteAddr() }

func (c *Call) addMetadata(name, value string) {
	if !slices.Contains(c.stream.conn.server.o.Metadata, name) {
		return
	}
	if c.Metadata == nil {
		c.Metadata = metadata.MD{}
	}
	c.Metadata[name] = append(c.Metadata[name], value)
}

// dispatch starts answering the calls that were read together.
func (c *conn) dispatch() {
	if len(c.batch) == 0 {
		return
	}
	calls, now := c.batch, time.Now()
	c.batch = nil
	for _, call := range calls {
		call.Read = now
	}
	c.server.HandOver(func() { c.server.answer(c, calls) })
}

// answer calls Options.Answer. If that panics, it closes the connection, since it is unknown
// which calls have been answered.
func (s *Server) answer(c *conn, calls []*Call) {
	completed := false
	defer func() {
		if !completed {
			_ = c.raw.Close() // the reading goroutine ends
		}
	}()
	s.o.Answer(calls)
	completed = true
}

// The header blocks of responses. Each begins by setting the dynamic table to size 0, so that
// it does not depend on other blocks or on the client's settings.
var (
	answerHeaders = block(field(":status", "200"), field("content-type", "application/grpc"))
	okTrailers    = block(field("grpc-status", "0"))
)

func field(name, value string) hpack.HeaderField { return hpack.HeaderField{Name: name, Value: value} }

// block encodes a list of fields.
func block(fields ...hpack.HeaderField) []byte {
	var b bytes.Buffer
	encoder := hpack.NewEncoder(&b)
	encoder.SetMaxDynamicTableSizeLimit(0)
	for _, f := range fields {
		_ = encoder.WriteField(f) // a buffer never fails
	}
	return b.Bytes()
}

// Finish sends the responses of one or more calls of the same connection together.
func Finish(calls ...*Call) {
	c := calls[0].stream.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range calls {
		call.stream.answer()
	}
	c.flush()
	c.endIfDrained()
}

// answer writes the response of a call.
func (s *stream) answer() {
	c := s.conn
	c.credit.earn()
	if s.gone || c.closed {
		s.busy = false
		s.forget()
		return
	}
	if err := s.call.Err; err != nil {
		c.writeHeaders(s.id, block(
			field(":status", "200"), field("content-type", "application/grpc"),
			field("grpc-status", strconv.Itoa(int(err.Code()))), field("grpc-message", Escaped(err.Message())),
		), true)
		s.busy = false
		s.forget()
		return
	}
	c.writeHeaders(s.id, answerHeaders, false)
	s.pending = binary.BigEndian.AppendUint32(append(s.pending[:0], 0), uint32(len(s.call.Answer))) //nolint:gosec // some hundred
	s.pending = append(s.pending, s.call.Answer...)
	s.trailers, s.ending = okTrailers, true
	s.send()
}

// Escaped percent-encodes a message for a header, as gRPC requires.
func Escaped(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c >= ' ' && c <= '~' && c != '%' {
			b.WriteByte(c)
		} else {
			const digits = "0123456789ABCDEF"
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return b.String()
}
