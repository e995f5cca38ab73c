package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
)

// DefaultTimeout is the maximum duration of a request whose response is not a stream.
const DefaultTimeout = 30 * time.Second

// maxAnswer is the maximum size of a response that is kept in memory, in bytes.
const maxAnswer = 64 << 20

// conn sends requests to one listener.
type conn struct {
	base  *url.URL
	token string
	http  *http.Client
}

// Unreachable is the error for a server that did not answer.
type Unreachable struct {
	URL string // scheme and host
	Err error
	// MaybeDone means that a change was sent and that the server may have made it.
	MaybeDone bool
}

// Error names the server and the reason in one line.
func (e *Unreachable) Error() string {
	if e.MaybeDone {
		return e.URL + " took the request and did not answer (" + e.reason() + "); the change may have been saved. Before you repeat it, look whether \"audit list\" has it"
	}
	return e.URL + " is unreachable: " + e.reason()
}

// Unwrap returns the cause.
func (e *Unreachable) Unwrap() error { return e.Err }

// IsUntrusted reports whether the server has a certificate that this machine does not trust.
func (e *Unreachable) IsUntrusted() bool {
	return errors.As(e.Err, new(*tls.CertificateVerificationError))
}

// IsOtherScheme reports whether the server speaks HTTP where the URL has https, or probably TLS
// where it has http: a node then closes the connection without an answer.
func (e *Unreachable) IsOtherScheme() bool {
	return errors.Is(e.Err, http.ErrSchemeMismatch) || strings.HasPrefix(e.URL, "http:") && errors.Is(e.Err, io.EOF)
}

func (e *Unreachable) reason() string {
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.Is(e.Err, http.ErrSchemeMismatch):
		return "it speaks http, not https"
	case e.IsOtherScheme() && e.MaybeDone:
		return "it closed the connection without an answer"
	case e.IsOtherScheme():
		return "it closed the connection without an answer, as one does that speaks https"
	case errors.Is(e.Err, context.Canceled):
		return "interrupted"
	case errors.Is(e.Err, syscall.ECONNREFUSED):
		return "nothing listens there"
	case errors.As(e.Err, &dns):
		return "its name is not known"
	case errors.Is(e.Err, os.ErrDeadlineExceeded), errors.Is(e.Err, context.DeadlineExceeded):
		return "it did not answer in time"
	case errors.As(e.Err, &timeout) && timeout.Timeout():
		return "it did not answer in time"
	}
	var wrapped *url.Error
	if errors.As(e.Err, &wrapped) {
		return wrapped.Err.Error()
	}
	return e.Err.Error()
}

// request is one call of the API.
type request struct {
	method string
	path   string // escaped, beginning with a slash
	query  url.Values
	header map[string]string
	body   any       // sent as JSON unless it is nil
	stream io.Reader // sent unchanged, instead of body
	media  string    // media type of stream
	slow   bool      // may take longer than DefaultTimeout

	readOnly bool // it makes no audited change, even if its method suggests one
}

// ask returns a request with a body that makes no audited change.
func ask(path string, body any) request {
	return request{method: http.MethodPost, path: path, body: body, readOnly: true}
}

// release returns a request that ends something and makes no audited change.
func release(path string) request {
	return request{method: http.MethodDelete, path: path, readOnly: true}
}

// call sends r and returns its answer.
func call[T any](ctx context.Context, c *conn, r request) (*T, error) {
	answer := new(T)
	return answer, c.do(ctx, r, answer)
}

// do sends r and decodes the answer into out unless that is nil. The error is
// *Unreachable if the server did not answer, and *wire.Problem if it refused.
func (c *conn) do(ctx context.Context, r request, out any) error {
	if !r.slow {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, DefaultTimeout)
		defer cancel()
	}
	answer, err := c.open(ctx, r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	return decode(answer, out)
}

// open sends r and returns a successful answer. The caller closes its body.
func (c *conn) open(ctx context.Context, r request) (*http.Response, error) {
	answer, err := c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode >= 300 {
		defer answer.Body.Close()
		return nil, readProblem(answer)
	}
	return answer, nil
}

// openBody sends r and returns the body of a successful answer. The caller closes it. A
// read error means that the body is incomplete.
func (c *conn) openBody(ctx context.Context, r request) (io.ReadCloser, error) {
	answer, err := c.open(ctx, r)
	if err != nil {
		return nil, err
	}
	answer.Body = &wholeBody{answer.Body}
	return answer.Body, nil
}

// wholeBody is a body whose end must not be missing.
type wholeBody struct{ io.ReadCloser }

// Read implements io.Reader.
func (b *wholeBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, context.Canceled) {
		err = fmt.Errorf("the server's answer is incomplete: %w", err)
	}
	return n, err
}

// send sends r and returns the answer, successful or not.
func (c *conn) send(ctx context.Context, r request) (*http.Response, error) {
	body, media := r.stream, r.media
	if r.body != nil {
		text, err := json.Marshal(r.body)
		if err != nil {
			return nil, fmt.Errorf("writing the request: %w", err)
		}
		body, media = bytes.NewReader(text), "application/json"
	}
	target := *c.base
	target.Path, target.RawPath = joinPath(c.base.Path, r.path)
	target.RawQuery = r.query.Encode()
	stream := &streamBody{from: body}
	if r.stream != nil {
		body = stream
	}
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	req, err := http.NewRequestWithContext(traced, r.method, target.String(), body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", media)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	answer, err := c.http.Do(req)
	if err != nil {
		if failed := stream.failed.Load(); failed != nil && !errors.Is(*failed, context.Canceled) {
			return nil, fmt.Errorf("nothing was changed: %w", *failed)
		}
		lost := &Unreachable{URL: c.base.Scheme + "://" + c.base.Host, Err: err, MaybeDone: sent.Load() && r.method != http.MethodGet && !r.readOnly}
		if parent := context.Cause(ctx); errors.Is(parent, context.Canceled) {
			if !lost.MaybeDone || r.stream != nil && !stream.ended.Load() {
				return nil, parent
			}
			lost.Err = parent // the server continues with what it has received
		}
		return nil, lost
	}
	return answer, nil
}

// streamBody is the stream of a request. It remembers how reading it ended: a server changes
// nothing until it has the whole stream.
type streamBody struct {
	from   io.Reader
	ended  atomic.Bool           // it was read to its end
	failed atomic.Pointer[error] // it could not be read
}

// Read implements io.Reader.
func (b *streamBody) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		b.ended.Store(true)
	case err != nil:
		b.failed.Store(&err)
	}
	return n, err
}

func joinPath(base, escaped string) (path, rawPath string) {
	plain, err := url.PathUnescape(escaped)
	if err != nil {
		return base + escaped, ""
	}
	return base + plain, base + escaped
}

func decode(answer *http.Response, out any) error {
	if out == nil {
		return nil
	}
	if err := json.UnmarshalRead(io.LimitReader(answer.Body, maxAnswer), out); err != nil {
		return fmt.Errorf("the server's answer cannot be read; is %s a Stint server? %w", answer.Request.URL.Host, err)
	}
	return nil
}
