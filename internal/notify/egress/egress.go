// Package egress is the HTTP client of channels, and of what downloads lists. Unless allowed, it does not connect to private
// addresses, even if a name resolves to one, and it does not follow redirects, so that the URL
// of a webhook cannot be used to attack Stint's own network.
package egress

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"github.com/stint-dev/stint/internal/notify"
)

// Options configure a Client.
type Options struct {
	// Timeout bounds a request with its answer, 0 for 20 seconds.
	Timeout time.Duration
	// AllowPrivate allows loopback, private and link-local addresses.
	AllowPrivate bool
}

// Client sends HTTP requests.
type Client struct {
	http   *http.Client
	dialer *net.Dialer
}

// New returns a client.
func New(o Options) *Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	if !o.AllowPrivate {
		// This checks the address that is dialled, after a name was resolved.
		dialer.Control = func(_, address string, _ syscall.RawConn) error { return refusePrivate(address) }
	}
	return &Client{dialer: dialer, http: &http.Client{
		Transport: &http.Transport{DialContext: dialer.DialContext, Proxy: nil, MaxIdleConns: 4, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
		Timeout: cmp.Or(o.Timeout, 20*time.Second),
	}}
}

// DialContext connects to an allowed address, for protocols other than HTTP.
func (c *Client) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return c.dialer.DialContext(ctx, network, address)
}

var errPrivate = errors.New("the address is private; the setting notify-allow-private allows requests to it")

// special are the networks that are neither private nor public: shared and documentation space,
// benchmarks, IPv4 inside IPv6, and the address of Azure's platform service.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("168.63.129.16/32"), netip.MustParsePrefix("2001::/32"),
	netip.MustParsePrefix("::/96"), netip.MustParsePrefix("fec0::/10"),
}

func refusePrivate(address string) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := target.Addr().Unmap()
	if !ip.IsGlobalUnicast() || ip.IsPrivate() {
		return errPrivate
	}
	for _, network := range special {
		if network.Contains(ip) {
			return errPrivate
		}
	}
	return nil
}

// Post sends body and succeeds on any 2xx. A 4xx other than 408, 425 and 429 is permanent.
// Errors never contain the URL, which may contain a secret.
func (c *Client) Post(ctx context.Context, target, contentType string, body []byte, header http.Header) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return notify.Permanent(errors.New("the URL is not one that can be called"))
	}
	for name, values := range header {
		request.Header[name] = values
	}
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("User-Agent", "Stint")
	response, err := c.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	// Read a little, so that the connection can be reused.
	_, _ = io.CopyN(io.Discard, response.Body, 4096)
	return CheckStatus(response.StatusCode)
}

// Do sends a request. If its address is not allowed, the error is permanent. Errors never
// contain the URL, nor anything that the receiver sends, which may repeat the URL.
func (c *Client) Do(request *http.Request) (*http.Response, error) {
	response, err := c.http.Do(request)
	if err == nil {
		return response, nil
	}
	var inside *url.Error
	if errors.As(err, &inside) {
		err = inside.Err
	}
	if errors.Is(err, errPrivate) {
		return nil, notify.Permanent(errPrivate)
	}
	if quotes(err) {
		return nil, errNoAnswer
	}
	var dialled *net.OpError // says more: which address, and what failed
	if late, is := errors.AsType[net.Error](err); is && late.Timeout() && !errors.As(err, &dialled) {
		return nil, errSilent
	}
	return nil, err
}

var errSilent = errors.New("the receiver did not answer in time")

var errNoAnswer = errors.New("the receiver closed the connection, or what it answered is not HTTP")

// quotes reports whether an error may quote the response, as net/http's errors about malformed
// responses do. It is true for all errors except those known not to.
func quotes(err error) bool {
	var network net.Error
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return !errors.As(err, &network) && !errors.As(err, &certificate) && !errors.As(err, &record) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, io.EOF) && !errors.Is(err, http.ErrSchemeMismatch)
}

// CheckStatus returns nil for any 2xx and an error for other statuses, which is permanent for a
// 3xx and for a 4xx other than 408, 425 and 429.
func CheckStatus(status int) error {
	switch {
	case status >= 200 && status < 300:
		return nil
	case status >= 300 && status < 400:
		return notify.Permanent(fmt.Errorf("the receiver answered %d; redirects are not followed, name the final URL", status))
	case status == http.StatusRequestTimeout || status == http.StatusTooEarly || status == http.StatusTooManyRequests:
		return fmt.Errorf("the receiver answered %d", status)
	case status >= 400 && status < 500:
		return notify.Permanent(fmt.Errorf("the receiver answered %d", status))
	default:
		return fmt.Errorf("the receiver answered %d", status)
	}
}
