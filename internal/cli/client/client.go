// Package client calls Stint's REST API for the command line: one method per
// operation, the wire types of internal/wire, and problems as errors.
package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
)

// DefaultTimeout bounds one request, answers that stream excepted.
const DefaultTimeout = 30 * time.Second

// maxAnswer bounds an answer that is held in memory, in bytes.
const maxAnswer = 64 << 20

// Client calls one listener of a Stint. See New.
type Client struct {
	base  *url.URL
	token string
	http  *http.Client
}

// New returns a client of the listener at base, for example
// "http://127.0.0.1:8081". token is sent as a bearer token, "" for none. The
// error says what is wrong with base.
func New(base, token string) (*Client, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return nil, fmt.Errorf("%q is no address of a server; write for example http://127.0.0.1:8081", base)
	case u.User != nil:
		return nil, fmt.Errorf("the address of the server must not hold a password; give a token by STINT_ADMIN_TOKEN or --token-file")
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	u.RawQuery, u.Fragment = "", ""
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the token holds characters that no token has; copy it again")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 256
	return &Client{base: u, token: token, http: &http.Client{
		Transport: transport,
		// A redirect would send the token elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Unreachable says that no answer was had from the server.
type Unreachable struct {
	URL string // scheme and host
	Err error
}

// Error names the server and the reason in one line.
func (e *Unreachable) Error() string { return e.URL + " cannot be reached: " + e.reason() }

// Unwrap returns what lies beneath.
func (e *Unreachable) Unwrap() error { return e.Err }

func (e *Unreachable) reason() string {
	var dns *net.DNSError
	var timeout net.Error
	switch {
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

// request is one call. body, where not nil, is sent as JSON unless it is a
// stream.
type request struct {
	method string
	path   string // escaped, beginning with a slash
	query  url.Values
	header map[string]string
	body   any
	stream io.Reader
	media  string // of stream
}

// do sends r and reads the answer into out, which may be nil. The error is *Unreachable or *wire.Problem where it fits.
func (c *Client) do(ctx context.Context, r request, out any) error {
	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	answer, err := c.open(ctx, r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	return decode(answer, out)
}

// open sends r and returns the answer, whose body the caller closes, once it
// is known to be a success.
func (c *Client) open(ctx context.Context, r request) (*http.Response, error) {
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

// send sends r and returns whatever was answered.
func (c *Client) send(ctx context.Context, r request) (*http.Response, error) {
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
	req, err := http.NewRequestWithContext(ctx, r.method, target.String(), body)
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
		if parent := context.Cause(ctx); errors.Is(parent, context.Canceled) {
			return nil, parent
		}
		return nil, &Unreachable{URL: c.base.Scheme + "://" + c.base.Host, Err: err}
	}
	return answer, nil
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
		return fmt.Errorf("the server's answer cannot be read; is %s a Stint? %w", answer.Request.URL.Host, err)
	}
	return nil
}
