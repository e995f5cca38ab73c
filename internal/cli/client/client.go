// Package client calls Stint's REST API for the command line: the declared operations and types of
// internal/wire, and problems as errors.
package client

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Client calls one listener of a Stint server. Create it with New. It is safe for
// concurrent use.
type Client struct {
	Checks Checks

	conn *conn
}

// New returns a client of the listener at base. token is sent as a bearer token unless it
// is empty. The error says what is wrong with base or token; example is an address for it.
func New(base, token, example string) (*Client, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return nil, fmt.Errorf("%q is not the address of a server; write for example %s", base, example)
	case u.User != nil:
		return nil, errors.New("the address of the server must not contain a password; set a token by STINT_ADMIN_TOKEN or --token-file")
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	u.RawQuery, u.Fragment = "", ""
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the token contains characters that no token has; copy it again")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 256
	c := &conn{base: u, token: token, http: &http.Client{
		Transport: transport,
		// A redirect would send the token to another server.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	return &Client{Checks{c}, c}, nil
}
