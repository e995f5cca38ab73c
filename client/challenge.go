package client

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
)

// PassCookie is the cookie that solving a challenge gives to a browser; its value is a Check's Pass.
const PassCookie = "stint_pass"

// MaxPass is the longest pass that Stint reads, in bytes.
const MaxPass = 512

// ChallengePrefix begins the paths that ChallengeHandler serves.
const ChallengePrefix = "/.well-known/stint/"

// IsChallengePath reports whether the path of a request, as its client sent it, is one of those that
// ChallengeHandler serves. All others below ChallengePrefix are requests like any other.
func IsChallengePath(path string) bool {
	name, isBelow := strings.CutPrefix(path, ChallengePrefix)
	return isBelow && (name == "challenge" || name == "pass" || name == "continue")
}

// challengeHeaders are what challenges are asked with. Others are not handed on: Stint would trust
// some of them, and others are secrets of the application.
var challengeHeaders = []string{"Accept", "Accept-Language", "Sec-Fetch-Dest", "Sec-Fetch-Mode", "Sec-Fetch-Site", "User-Agent"}

// ChallengeHandler returns the handler of ChallengePrefix, which hands requests on to Stint: it shows
// challenges to browsers and takes their solutions. A Guard does so itself; serve the handler if no
// Guard sees these paths:
//
//	mux.Handle(client.ChallengePrefix, c.ChallengeHandler())
//	mux.Handle("/shop/", guard.Handler(shop))
//
// Stint has to know the addresses of visitors, so list the program's address in --trusted-proxies.
func (c *Client) ChallengeHandler() http.Handler { return c.ChallengeHandlerBy(AddressKey) }

// ChallengeHandlerBy is ChallengeHandler for a program that finds the address of a visitor by a key
// function, such as AddressKeyBehind. Other keys than addresses stand for that of the connection.
func (c *Client) ChallengeHandlerBy(key func(*http.Request) string) http.Handler {
	base, err := url.Parse(c.base)
	if err != nil {
		panic(err) // New has parsed it
	}
	pages := &httputil.ReverseProxy{
		Transport: c.http.Transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(base)
			headers := http.Header{}
			for _, name := range challengeHeaders {
				if values := r.In.Header[name]; len(values) > 0 {
					headers[name] = values
				}
			}
			for _, pass := range strings.Fields(passOf(r.In)) {
				headers.Add("Cookie", PassCookie+"="+pass)
			}
			r.Out.Header = headers
			r.SetXForwarded()
			if address, is := strings.CutPrefix(key(r.In), "ip:"); is {
				r.Out.Header.Set("X-Forwarded-For", address)
			}
			r.Out.Host = r.In.Host // which decides whether the cookie is Secure
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !IsChallengePath(r.URL.EscapedPath()) { // "/.well-known/stint/../../v1/check" is another endpoint of Stint's
			http.NotFound(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	})
}

// passOf returns the Pass of a request, "" for none.
func passOf(r *http.Request) string {
	var passes string
	for _, cookie := range r.CookiesNamed(PassCookie) {
		passes = JoinPasses(passes, cookie.Value)
	}
	return passes
}

// JoinPasses returns a Check's Pass with the value of one more PassCookie, unless that makes it longer than
// MaxPass: a browser sends several if another site of the same domain has set one, and only some hold.
func JoinPasses(passes, value string) string {
	if value == "" || len(passes)+1+len(value) > MaxPass {
		return passes
	}
	return strings.TrimSpace(passes + " " + value)
}

// ChallengeOf returns where a browser is led that opens a page and is challenged, "" for every other
// request: answer it by a redirect with status 303, Cache-Control no-store and the path. target is the
// path and query of the request, header returns a header of it. Guard and fibermw do so.
func ChallengeOf(d *Decision, method, target string, header func(name string) string) string {
	isAny := func(value, one string) bool { return value == "" || value == one }
	if d == nil || d.Outcome != Challenged || d.Challenge == "" || method != http.MethodGet ||
		!strings.Contains(header("Accept"), "text/html") || !isAny(header("Sec-Fetch-Mode"), "navigate") || !isAny(header("Sec-Fetch-Dest"), "document") ||
		strings.HasPrefix(target, "/.well-known/") || strings.HasPrefix(target, "/robots.txt") || strings.HasPrefix(target, "/favicon.ico") {
		return ""
	}
	return d.Challenge + "?to=" + url.QueryEscape(target)
}
