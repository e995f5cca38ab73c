package httpserver

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/klauspost/compress/flate"
	"github.com/valyala/fasthttp"

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
	if !c.takeRoom(streamRoom) {
		return nil, errAnswersFull
	}
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

// Piece is a part of the bodies of several responses. It is compressed once for all of them. It
// is safe for concurrent use.
//
// Fast path. Plain version: gzipBody, which compresses each response by itself. Benchmark:
// BenchmarkEventStreams in package api, with 500 streams a thirteenth of the processor time.
type Piece struct {
	plain    []byte
	once     sync.Once
	deflated []byte
}

// NewPiece returns a piece. The bytes must not change afterwards.
func NewPiece(plain []byte) *Piece { return &Piece{plain: plain} }

// compressed returns the piece as blocks of DEFLATE that end at a whole byte and refer to
// nothing before them.
func (p *Piece) compressed() []byte {
	p.once.Do(func() {
		var out bytes.Buffer
		_ = flate.StatelessDeflate(&out, p.plain, false, nil) // a buffer returns no error
		p.deflated = out.Bytes()
	})
	return p.deflated
}

// Pieces are the source of a body that consists of pieces.
type Pieces interface {
	// Next waits for the next pieces and returns them, in a slice that is valid until the next
	// call. After the last it returns io.EOF.
	Next() ([]*Piece, error)
	io.Closer
}

// SendPieces sends pieces as they arrive, and closes from at the end. The media type must be
// set. A panic of from ends only this response. The write deadline of the connection is renewed
// for every write, so that a quiet stream is not a slow one.
func (c *Call) SendPieces(from Pieces) {
	body := &piecesBody{from: from, conn: c.Ctx.Context().Conn()}
	if c.canCompress() {
		c.Set(fiber.HeaderContentEncoding, "gzip")
		body.isGzip, body.rest = true, gzipHead
	}
	c.setStream(body)
}

// piecesBody is the body that the server reads while it sends.
type piecesBody struct {
	from   Pieces
	conn   net.Conn
	pieces []*Piece // the next
	rest   []byte   // of the piece before them
	ended  bool

	isGzip bool
	sum    uint32 // of what was compressed, as is size
	size   uint32
}

var (
	gzipHead = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff} // without a name, a time or a system
	gzipTail = []byte{1, 0, 0, 0xff, 0xff}                   // a last block, which is empty; its sum and size follow
)

// Read implements io.Reader. It fills to with as many of the pieces that are ready as fit.
func (b *piecesBody) Read(to []byte) (int, error) {
	n := 0
	for n == 0 || len(b.rest) > 0 || len(b.pieces) > 0 {
		switch {
		case len(b.rest) > 0:
			moved := copy(to[n:], b.rest)
			if b.rest = b.rest[moved:]; len(b.rest) > 0 {
				return n + moved, b.renewDeadline()
			}
			n += moved
		case len(b.pieces) > 0:
			b.begin(b.pieces[0])
			b.pieces = b.pieces[1:]
		case b.ended:
			return 0, io.EOF
		default:
			if err := b.next(); err != nil {
				return 0, err
			}
		}
	}
	return n, b.renewDeadline()
}

func (b *piecesBody) renewDeadline() error {
	return b.conn.SetWriteDeadline(time.Now().Add(WriteTimeout))
}

func (b *piecesBody) begin(p *Piece) {
	if !b.isGzip {
		b.rest = p.plain
		return
	}
	b.rest = p.compressed()
	b.sum = crc32.Update(b.sum, crc32.IEEETable, p.plain)
	b.size += uint32(len(p.plain)) //nolint:gosec // gzip has the size modulo 2^32
}

// next waits for pieces. After an error, a compressed body has no end mark.
func (b *piecesBody) next() error {
	err := supervise.Call("answer stream", func() (err error) {
		b.pieces, err = b.from.Next()
		return err
	})
	if !errors.Is(err, io.EOF) {
		return err
	}
	b.ended = true
	if b.isGzip {
		b.rest = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(slices.Clone(gzipTail), b.sum), b.size)
	}
	return nil
}

// Close implements io.Closer.
func (b *piecesBody) Close() error { return supervise.Call("answer stream", b.from.Close) }

// setStream sets a body whose length is unknown. HTTP/1.0 has no chunked coding: there the end
// of the connection is the end of the body.
func (c *Call) setStream(body io.ReadCloser) {
	rc := c.Ctx.Context()
	if rc.Request.Header.IsHTTP11() {
		rc.SetBodyStream(body, -1)
		return
	}
	rc.SetBodyStream(&rawBody{body, rc.Conn()}, 0)
	rc.Response.Header.Del(fiber.HeaderContentLength)
	rc.SetConnectionClose()
}

// rawBody is a body that is sent without a length or a coding. If it is incomplete, the
// connection is reset, which is the only sign of it that HTTP/1.0 has.
type rawBody struct {
	io.ReadCloser
	conn net.Conn
}

var _ fasthttp.BodyWriterTo = (*rawBody)(nil)

// SupportsBodyWriteTo implements fasthttp.BodyWriterTo.
func (b *rawBody) SupportsBodyWriteTo() bool { return true }

// WriteTo sends what each Read returns at once. It returns 0, which fasthttp compares with the
// announced length.
func (b *rawBody) WriteTo(w io.Writer) (int64, error) {
	if conn, can := tcpOf(b.conn); can { // even the end of the process resets the connection now
		_ = conn.SetLinger(0)
	}
	part := make([]byte, 4<<10)
	for {
		n, ended := b.Read(part)
		if n > 0 {
			if _, err := w.Write(part[:n]); err != nil {
				return 0, err
			}
			if buffered, is := w.(interface{ Flush() error }); is {
				if err := buffered.Flush(); err != nil {
					return 0, err
				}
			}
		}
		if errors.Is(ended, io.EOF) {
			return 0, nil
		}
		if ended != nil {
			return 0, ended
		}
	}
}

// CloseWithError implements fasthttp.ReadCloserWithError.
func (b *rawBody) CloseWithError(failed error) (err error) {
	if body, wants := b.ReadCloser.(fasthttp.ReadCloserWithError); wants {
		err = body.CloseWithError(failed)
	}
	conn, can := tcpOf(b.conn)
	if !can {
		return err
	}
	if failed != nil || err != nil {
		_ = conn.Close() // not by way of TLS, which would send its own end before
		return err
	}
	return conn.SetLinger(-1)
}

// tcpOf returns the connection of TCP below others, false if there is none.
func tcpOf(c net.Conn) (*net.TCPConn, bool) {
	for {
		switch is := c.(type) {
		case *net.TCPConn:
			return is, true
		case *conn:
			c = is.Conn
		case *tlsConn:
			c = is.Conn
		case interface{ NetConn() net.Conn }:
			c = is.NetConn()
		default:
			return nil, false
		}
	}
}
