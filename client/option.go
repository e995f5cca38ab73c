package client

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"
)

// The defaults of a Client.
const (
	DefaultTimeout = 2 * time.Second
	DefaultRetries = 2
	DefaultMemory  = 16384 // refusals, at some 500 bytes each
)

// Option changes how a Client works. New takes them.
type Option func(*Client) error

// WithToken sends a bearer token with every call, which a server started with
// --check-auth token asks for. Without it none is sent.
func WithToken(token string) Option {
	return func(c *Client) error {
		if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return errors.New("client: the token contains white space or other characters that no token has")
		}
		c.token = token
		return nil
	}
}

// WithHTTPClient makes calls with h instead of a client of this package's own, which
// keeps 256 connections for reuse. Danger: http.DefaultTransport keeps 2 for each
// host, and opens a new connection for every other caller. Redirects are not followed
// whatever h says, and h.Timeout applies in addition to WithTimeout.
func WithHTTPClient(h *http.Client) Option {
	return func(c *Client) error {
		if h == nil {
			return errors.New("client: WithHTTPClient needs a client; omit the option to use the default")
		}
		own := *h
		own.CheckRedirect = noRedirect
		c.http = &own
		return nil
	}
}

// WithTimeout bounds the duration of one attempt; the default is DefaultTimeout. A call
// may make several attempts with pauses between them. It does not bound how long Wait
// waits.
func WithTimeout(d time.Duration) Option {
	return func(c *Client) error {
		if d <= 0 {
			return errors.New("client: the timeout must be positive")
		}
		c.timeout = d
		return nil
	}
}

// WithRetries sets how often a call without an answer is repeated; the default is
// DefaultRetries. With 0 nothing is repeated and no idempotency keys are generated.
func WithRetries(n int) Option {
	return func(c *Client) error {
		if n < 0 {
			return errors.New("client: the number of retries must not be negative")
		}
		c.retries = n
		return nil
	}
}

// WithMemory sets how many refusals are remembered; the default is DefaultMemory. A key
// that is known to be refused is refused without asking Stint. 0 remembers nothing.
//
// A refusal is remembered for the same key, policy and cost until it ends, and for at
// most 2 s, in which the end of a block or a reset reaches every node of Stint too.
// Danger: refusals from memory are not counted as offences and do not escalate;
// Check.Fresh asks nevertheless.
func WithMemory(refusals int) Option {
	return func(c *Client) error {
		if refusals < 0 {
			return errors.New("client: the number of remembered refusals must not be negative")
		}
		c.memory = newMemory(refusals)
		return nil
	}
}

// WithOutage sets what happens during an outage; the default is ReturnError.
func WithOutage(do OnOutage) Option {
	return func(c *Client) error {
		if do < ReturnError || do > FailClosed {
			return errors.New("client: WithOutage takes ReturnError, FailOpen or FailClosed")
		}
		c.outage = do
		return nil
	}
}

// WithTraceparent sets a function that returns the traceparent header (W3C Trace Context)
// of a call from its context, "" for none. With it, Stint's spans, logs and offences join
// the caller's trace. With OpenTelemetry:
//
//	func(ctx context.Context) string {
//		carrier := propagation.MapCarrier{}
//		propagation.TraceContext{}.Inject(ctx, carrier)
//		return carrier["traceparent"]
//	}
func WithTraceparent(f func(context.Context) string) Option {
	return func(c *Client) error { c.traceparent = f; return nil }
}

// WithSource sets the Source of checks that have none, at most 64 bytes. It is shown with
// offences.
func WithSource(source string) Option {
	return func(c *Client) error { c.source = source; return nil }
}
