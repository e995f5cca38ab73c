package client

import (
	"net/http"
	"net/url"
	"path"
	"strings"
)

// Request describes the request that is checked, for policies with conditions. A field
// that is "" is not known.
type Request struct {
	Path   string `json:"path,omitzero"` // or the target; the query is not sent
	Method string `json:"method,omitzero"`
	Agent  string `json:"agent,omitzero"` // the header User-Agent
	Host   string `json:"host,omitzero"`
	Scheme string `json:"scheme,omitzero"` // http or https
	JA4    string `json:"ja4,omitzero"`    // the fingerprint of the client's TLS
	// Headers has the headers that policies look at, by name in any case; "" says that one was not sent.
	// The page Connect shows which these are. Query and Cookies have parameters and cookies.
	Headers map[string]string `json:"headers,omitzero"`
	Query   map[string]string `json:"query,omitzero"`
	Cookies map[string]string `json:"cookies,omitzero"`
	// Scope is the part of the application that the request is for, such as "login": a
	// policy with a scope refuses only checks with the same scope.
	Scope string `json:"scope,omitzero"`
}

// RequestOf returns the description of a request that a server received.
func RequestOf(r *http.Request) Request {
	return Request{Path: r.URL.EscapedPath(), Method: r.Method, Agent: r.UserAgent(), Host: r.Host}
}

func (r Request) isZero() bool {
	return r.Path+r.Method+r.Agent+r.Host+r.Scheme+r.JA4+r.Scope == "" && len(r.Headers)+len(r.Query)+len(r.Cookies) == 0
}

// cut returns the request as the server takes it: clients choose its values, and none
// must be able to have its check refused as invalid by them.
func (r Request) cut() Request {
	target, _, _ := strings.Cut(r.Path, "?")
	return Request{
		Path: cutPath(target), Method: cutValue(r.Method, 32), Agent: cutValue(r.Agent, 2048), Host: cutValue(r.Host, 255),
		Scheme: r.Scheme, JA4: r.JA4, Headers: r.Headers, Query: r.Query, Cookies: r.Cookies, Scope: r.Scope,
	}
}

// maxPath is how much of a path the server takes, in bytes.
const maxPath = 8192

// cutPath cuts a long path once it is in its plain spelling, so that no padding of slashes and
// dots hides what it leads to.
func cutPath(text string) string {
	if len(text) > maxPath {
		if decoded, err := url.PathUnescape(text); err == nil {
			text = (&url.URL{Path: path.Clean("/" + decoded)}).EscapedPath()
		}
	}
	return cutValue(text, maxPath)
}
