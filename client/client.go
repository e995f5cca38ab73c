package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Client is a client of one Stint server, or of several behind one address. It is safe for
// concurrent use. Make one and keep it, since it holds the connections. The zero Client
// is not usable; see New.
type Client struct {
	base    string // without a slash at the end
	http    *http.Client
	own     *http.Transport // nil if the caller brought an http.Client
	token   string
	timeout time.Duration
	retries int
	outage  OnOutage
	source  string
	// traceparent is nil for none.
	traceparent func(context.Context) string
	memory      *memory // nil if nothing is remembered
	// background counts reservations that are being cancelled, and reports that are being sent.
	background sync.WaitGroup
	queue      queue
}

// New returns a client of the check listener at baseURL, for example
// "http://127.0.0.1:8080". It does not connect yet. The error says what is
// wrong with baseURL or an option.
func New(baseURL string, options ...Option) (*Client, error) {
	base, err := checkBase(baseURL)
	if err != nil {
		return nil, err
	}
	c := &Client{base: base, timeout: DefaultTimeout, retries: DefaultRetries, memory: newMemory(DefaultMemory)}
	for _, option := range options {
		if err := option(c); err != nil {
			return nil, err
		}
	}
	if c.http == nil {
		c.own = newTransport()
		c.http = &http.Client{Transport: c.own, CheckRedirect: noRedirect}
	}
	return c, nil
}

// Close waits until abandoned reservations have been cancelled and the reports of
// ReportSoon have been sent, and closes idle connections. Call it after the last call has
// returned. It is needed only if the program exits right after a context has ended or a
// report.
func (c *Client) Close() {
	c.background.Wait()
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
}

func checkBase(baseURL string) (string, error) {
	u, err := url.Parse(baseURL)
	switch {
	case err != nil:
		return "", errors.New("client: the base URL is invalid; use a URL such as http://127.0.0.1:8080")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "", fmt.Errorf("client: the base URL %q must begin with http:// or https:// and name a host", u.Redacted())
	case u.User != nil:
		return "", errors.New("client: the base URL must not contain a user; use WithToken to set a token")
	case u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("client: the base URL %q must end with its path", baseURL)
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// idleConnections is how many connections are kept open between calls, so that
// as many callers at once need no new one.
const idleConnections = 256

// newTransport returns a transport for many small calls to one server.
func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        idleConnections,
		MaxIdleConnsPerHost: idleConnections,
		// Less than the server's own 75 s, so that it is this side that ends an
		// idle connection and no call runs into its end.
		IdleConnTimeout:     60 * time.Second,
		TLSHandshakeTimeout: 5 * time.Second,
		// One connection of HTTP/2 carries all calls: one that is dead, but was not closed, must
		// not fail all of them until the kernel gives it up.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 5 * time.Second},
	}
}

// noRedirect returns a redirect as the answer: a token must not be sent to another host,
// and a POST must not become a GET.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// detached returns a context that goes on after ctx has ended. What is done
// under it is bounded by the client's own time-out.
func detached(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }
