package grpcserver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/stint-dev/stint/internal/supervise"
)

// servePlain makes the plain version answer a call.
func (s *stream) servePlain(ctx context.Context) {
	defer s.cancel()
	w := &answerWriter{stream: s, header: http.Header{}}
	err := supervise.Call("grpc call", func() error {
		r, err := s.request(ctx)
		if err != nil {
			http.Error(w, "the path is none", http.StatusBadRequest)
			return nil //nolint:nilerr // the error was already sent
		}
		s.conn.server.o.Plain.ServeHTTP(w, r)
		w.WriteHeader(http.StatusOK)
		return nil
	})
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && !s.gone && c.reset(s.id, http2.ErrCodeInternal) != nil {
		s.end(err)
	}
	if s.gone || c.closed {
		s.busy = false
		s.forget()
	} else {
		c.credit.earn()
		w.finish()
	}
	c.flush()
	c.endIfDrained()
}

// request returns the call in the form of net/http.
func (s *stream) request(ctx context.Context) (*http.Request, error) {
	r := &http.Request{
		Proto: "HTTP/2.0", ProtoMajor: 2, Header: http.Header{}, Body: &requestBody{s}, ContentLength: s.length,
		RemoteAddr: s.conn.net.RemoteAddr().String(), TLS: s.conn.secure,
	}
	for _, f := range s.fields {
		switch f.Name {
		case ":method":
			r.Method = f.Value
		case ":authority":
			r.Host = f.Value
		case ":path":
			var err error
			if r.URL, err = url.ParseRequestURI(f.Value); err != nil {
				return nil, err
			}
			r.RequestURI = f.Value
		case ":scheme":
		default:
			r.Header.Add(f.Name, f.Value)
		}
	}
	return r.WithContext(ctx), nil
}

// requestBody is the body of the request, with its messages.
type requestBody struct{ s *stream }

// grpc-go allocates a buffer of 16 KiB for each Read, and keeps it until a method takes what
// was read. To keep this proportional to what the client sent, Read waits for a whole message
// or minRead bytes, and it waits with the next message until the client has accepted a response
// to the one before. A call has at most maxMessages.
const (
	minRead     = 8 << 10
	maxMessages = 256
)

// canRead reports whether Read has something to return.
func (s *stream) canRead() bool {
	if s.bodyErr != nil || s.requested && !s.streaming {
		return true
	}
	if s.unread == 0 {
		length := messageLength(s.body)
		if length < 0 {
			return s.requested // the request ends
		}
		if s.messages > s.answered {
			return false
		}
		s.messages++
		if s.unread = length + messagePrefix; length > int64(s.conn.server.o.MaxMessage) {
			return true // it will be refused because of its length
		}
	}
	return s.requested || int64(len(s.body)) >= min(s.unread, minRead)
}

// Read implements io.Reader. It lets the client send as many more bytes as it returns.
func (b *requestBody) Read(p []byte) (int, error) {
	s := b.s
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for !s.canRead() {
		s.changed.Wait()
	}
	if s.bodyErr == nil && s.unread > 0 {
		s.reads++
		if s.keep(plainRead) != nil || s.messages > maxMessages {
			s.refuse()
			c.flush()
		}
	}
	if s.bodyErr != nil {
		return 0, s.bodyErr
	}
	if len(s.body) == 0 {
		return 0, io.EOF
	}
	if s.unread > 0 {
		p = p[:min(int64(len(p)), s.unread)]
	}
	n := copy(p, s.body)
	s.unread = max(0, s.unread-int64(n))
	s.body = s.body[:copy(s.body, s.body[n:])]
	if s.owed += n; !s.requested {
		_ = s.openWindow() // a buffer never fails
		c.flush()
	}
	return n, nil
}

// Close implements io.Closer.
func (b *requestBody) Close() error {
	c := b.s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if b.s.bodyErr == nil {
		b.s.bodyErr = errors.New("http2: request body closed by handler") // grpc-go recognizes this text
	}
	b.s.changed.Broadcast()
	return nil
}

// answerWriter writes a response of the plain version.
type answerWriter struct {
	stream *stream
	header http.Header
	began  bool
}

// Header implements http.ResponseWriter.
func (w *answerWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *answerWriter) WriteHeader(status int) {
	if w.began {
		return
	}
	w.began = true
	fields := []hpack.HeaderField{field(":status", strconv.Itoa(status))}
	for name, values := range w.header {
		if name == "Trailer" || w.isTrailer(name) {
			continue
		}
		for _, value := range values {
			fields = append(fields, field(strings.ToLower(name), value))
		}
	}
	c := w.stream.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if !w.stream.gone && !c.closed {
		c.writeHeaders(w.stream.id, block(fields...), false)
	}
}

// isTrailer reports whether a header is sent after the messages.
func (w *answerWriter) isTrailer(name string) bool {
	if strings.HasPrefix(name, http.TrailerPrefix) {
		return true
	}
	for _, declared := range w.header["Trailer"] {
		if strings.EqualFold(declared, name) {
			return true
		}
	}
	return false
}

// Write implements http.ResponseWriter. It waits until the client has accepted p, unless that is
// only the prefix of a message: grpc-go holds the message by then, which counts once it is here.
func (w *answerWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	s := w.stream
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.gone && !c.closed {
		c.credit.earn()
		s.pending = append(s.pending, p...)
		s.send()
		c.flush()
	}
	for len(s.pending) > messagePrefix && !s.gone {
		s.changed.Wait()
	}
	if s.gone || c.closed {
		return 0, errors.New("http2: stream closed")
	}
	if len(p) > messagePrefix || len(s.pending) == 0 {
		s.answered = s.messages
		s.release(s.reads * plainRead)
		s.reads = 0
		s.changed.Broadcast() // the next message may be read
	}
	return len(p), nil
}

// Flush implements http.Flusher.
func (w *answerWriter) Flush() {
	w.WriteHeader(http.StatusOK)
	w.stream.conn.mu.Lock()
	defer w.stream.conn.mu.Unlock()
	w.stream.conn.flush()
}

// finish writes the trailers. The caller holds mu.
func (w *answerWriter) finish() {
	s := w.stream
	var fields []hpack.HeaderField
	for name, values := range w.header {
		if w.isTrailer(name) {
			for _, value := range values {
				fields = append(fields, field(strings.ToLower(strings.TrimPrefix(name, http.TrailerPrefix)), value))
			}
		}
	}
	switch {
	case len(fields) > 0:
		s.trailers = block(fields...)
	default:
		_ = s.conn.framer.WriteData(s.id, true, nil) // a buffer never fails
	}
	s.ending = true
	s.send()
}
