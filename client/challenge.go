package client

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
)

// PassCookie is the cookie that solving a challenge gives to a browser; its value is a Check's Pass.
const PassCookie = "stint_pass"

// ChallengePrefix begins the paths that ChallengeHandler serves.
const ChallengePrefix = "/.well-known/stint/"

// ChallengeHandler returns the handler of ChallengePrefix, which hands requests on to Stint: it shows
// challenges to browsers and takes their solutions. A Guard leads browsers there:
//
//	mux.Handle(client.ChallengePrefix, c.ChallengeHandler())
//	mux.Handle("/", guard.Handler(pages))
func (c *Client) ChallengeHandler() http.Handler {
	base, err := url.Parse(c.base)
	if err != nil {
		panic(err) // New has parsed it
	}
	return &httputil.ReverseProxy{
		Transport: c.http.Transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(base)
			r.SetXForwarded()
			r.Out.Host = r.In.Host // which decides whether the cookie is Secure
			for name := range r.Out.Header {
				if strings.HasPrefix(name, "X-Original-") || strings.HasPrefix(name, "X-Stint-") || name == "X-Forwarded-Uri" {
					r.Out.Header.Del(name) // Stint would trust them
				}
			}
		},
	}
}

// passOf returns the pass of a request, "" for none.
func passOf(r *http.Request) string {
	if cookie, err := r.Cookie(PassCookie); err == nil {
		return cookie.Value
	}
	return ""
}

// challengeOf returns where a challenged request of a browser is led, "" if it opens no page.
func challengeOf(r *http.Request, d *Decision) string {
	mode := r.Header.Get("Sec-Fetch-Mode")
	if d == nil || d.Outcome != Challenged || d.Challenge == "" || r.Method != http.MethodGet ||
		!strings.Contains(r.Header.Get("Accept"), "text/html") || mode != "" && mode != "navigate" {
		return ""
	}
	return d.Challenge + "?to=" + url.QueryEscape(r.URL.RequestURI())
}
