package httpserver

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/klauspost/compress/gzip"
	"github.com/valyala/fasthttp"
)

// minCompressed is the size in bytes from which compressing a response saves packets.
const minCompressed = 1024

// canCompress reports whether the response may be compressed for its client. The media type
// must be set.
//
// The length of a compressed response depends on which texts in it repeat. So a response that
// has a secret next to text that others choose is never compressed. Responses that show a new
// secret, such as a token, answer a POST, and no response to a POST is compressed. Backups
// contain secrets too, and are not text. Pages contain the CSRF token of the session, which is
// masked in each response. Responses of the check listener have some hundred bytes, and their
// clients need them fast.
func (c *Call) canCompress() bool {
	method := c.Method()
	if !c.compressible || method != http.MethodGet && method != http.MethodHead || c.Response().StatusCode() != http.StatusOK {
		return false
	}
	header := &c.Response().Header
	kind, _, _ := strings.Cut(string(header.ContentType()), ";")
	if !strings.HasPrefix(kind, "text/") && kind != "application/json" && kind != "application/x-ndjson" && kind != "application/yaml" {
		return false
	}
	if len(header.ContentEncoding()) > 0 || len(header.Peek(fiber.HeaderETag)) > 0 { // an ETag identifies exactly these bytes
		return false
	}
	c.Vary(fiber.HeaderAcceptEncoding)
	return acceptsGzip(c.Get(fiber.HeaderAcceptEncoding))
}

// acceptsGzip reports whether the value of Accept-Encoding allows gzip.
func acceptsGzip(header string) bool {
	for item := range strings.SplitSeq(header, ",") {
		name, parameters, _ := strings.Cut(item, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		quality, found := strings.CutPrefix(strings.ReplaceAll(strings.ToLower(parameters), " ", ""), "q=")
		return !found || strings.Trim(quality, "0.") != ""
	}
	return false
}

// compress compresses a response that is complete. SendBody compresses the others.
func (c *Call) compress() {
	if c.Response().IsBodyStream() || len(c.Response().Body()) < minCompressed || !c.canCompress() {
		return
	}
	c.Set(fiber.HeaderContentEncoding, "gzip")
	c.Ctx.Context().RemoveUserValue(sharedBody{}) // what is sent is no longer shared
	c.Response().SetBodyRaw(fasthttp.AppendGzipBytesLevel(nil, c.Response().Body(), fasthttp.CompressBestSpeed))
}

// SendBody sends what body returns as it arrives, and closes body at the end. The media type
// must be set. If the client accepts gzip and there is memory for it, the bytes of each Read are
// compressed and sent at once.
func (c *Call) SendBody(body io.ReadCloser) {
	if c.canCompress() && c.takeRoom(gzipRoom) {
		c.Set(fiber.HeaderContentEncoding, "gzip")
		body = newGzipBody(body)
	}
	c.setStream(body)
}

// gzipBody compresses a body piece by piece.
type gzipBody struct {
	plain  io.ReadCloser
	writer *gzip.Writer
	ready  bytes.Buffer // compressed, not yet read
	piece  []byte
	ended  error // the error at the end of plain, nil before
}

// newGzipBody compresses what plain returns. Its state needs gzipRoom.
func newGzipBody(plain io.ReadCloser) *gzipBody {
	b := &gzipBody{plain: plain, piece: make([]byte, 16<<10)}
	b.writer, _ = gzip.NewWriterLevel(&b.ready, gzip.BestSpeed) // the level is valid
	return b
}

// Read implements io.Reader. The bytes of a read of plain can be read compressed at once. After
// an error of plain, the compressed data has no end mark, so that the client does not take half
// a file for a whole one.
func (b *gzipBody) Read(p []byte) (int, error) {
	for b.ready.Len() == 0 && b.ended == nil {
		n, err := b.plain.Read(b.piece)
		if n > 0 {
			if _, failed := b.writer.Write(b.piece[:n]); failed != nil {
				return 0, failed
			}
			if failed := b.writer.Flush(); failed != nil {
				return 0, failed
			}
		}
		if errors.Is(err, io.EOF) {
			if failed := b.writer.Close(); failed != nil {
				return 0, failed
			}
		}
		b.ended = err
	}
	if b.ready.Len() > 0 {
		return b.ready.Read(p)
	}
	return 0, b.ended
}

// Close implements io.Closer.
func (b *gzipBody) Close() error { return b.plain.Close() }

// CloseWithError implements fasthttp.ReadCloserWithError.
func (b *gzipBody) CloseWithError(failed error) error {
	if plain, wants := b.plain.(fasthttp.ReadCloserWithError); wants {
		return plain.CloseWithError(failed)
	}
	return nil
}
