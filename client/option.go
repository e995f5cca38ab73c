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
			return errors.New("client: the token holds white space or another character that no token does")
		}
		c.token = token
		return nil
	}
}

// WithHTTPClient has calls made by h in place of a client of this package's own,
// which keeps 256 connections for reuse. Danger: http.DefaultTransport keeps 2
// for each host, and opens a new connection for every other caller. Redirects
// are not followed whatever h says, and h.Timeout counts beside WithTimeout.
func WithHTTPClient(h *http.Client) Option {
	return func(c *Client) error {
		if h == nil {
			return errors.New("client: WithHTTPClient was given nil; leave it out instead")
		}
		own := *h
		own.CheckRedirect = noRedirect
		c.http = &own
		return nil
	}
}

// WithTimeout bounds how long one attempt may take; DefaultTimeout where it is
// left out. A call takes at most so much for each attempt, and the pauses
// between them, beside what its context says. It has nothing to do with how
// long Wait waits.
func WithTimeout(d time.Duration) Option {
	return func(c *Client) error {
		if d <= 0 {
			return errors.New("client: the time-out must be longer than nothing")
		}
		c.timeout = d
		return nil
	}
}

// WithRetries sets how often a call is repeated whose answer did not come;
// DefaultRetries where it is left out. 0 repeats nothing, and then no
// idempotency key is sent, which spares the server remembering it.
func WithRetries(n int) Option {
	return func(c *Client) error {
		if n < 0 {
			return errors.New("client: the number of retries must be 0 or more")
		}
		c.retries = n
		return nil
	}
}

// WithMemory sets how many refusals are remembered, so that a key known to be
// refused is refused without asking; DefaultMemory where it is left out. 0
// remembers nothing.
//
// A refusal is served to the same key, policy and cost until it ends, and for at
// most 2 s, within which a lifted block or a reset reaches every node of Stint
// too. Danger: what is refused from memory is not counted as an offence, so that
// escalations see less of it; Check.Fresh asks nevertheless.
func WithMemory(refusals int) Option {
	return func(c *Client) error {
		if refusals < 0 {
			return errors.New("client: the number of remembered refusals must be 0 or more")
		}
		c.memory = newMemory(refusals)
		return nil
	}
}

// WithOutage sets what happens during an outage; the default is ReturnError.
func WithOutage(do OnOutage) Option {
	return func(c *Client) error {
		if do < ReturnError || do > FailClosed {
			return errors.New("client: an outage can be ReturnError, FailOpen or FailClosed")
		}
		c.outage = do
		return nil
	}
}

// WithTraceparent has f called with the context of each call, for the traceparent header
// (W3C Trace Context) by which Stint's spans, logs and offences join the caller's trace; ""
// sends none. With OpenTelemetry:
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
