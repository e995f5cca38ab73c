package client

import (
	"net/http"
	"strings"
	"time"
)

// Transport is an http.RoundTripper that waits for its reservation before it calls
// somebody else's API, so that all programs that share a Stint together keep that
// API's limits. Only Client must be set. It is safe for use by many goroutines
// as long as its fields do not change.
//
//	outside := &http.Client{Transport: &client.Transport{Client: stint}}
//
// A request waits within its context and MaxWait, and so within http.Client's
// Timeout. One whose reservation would come too late is not sent: the error holds a
// *Refused, as errors.As finds it. A redirect is a request of its own, and
// so is whatever Base repeats not.
type Transport struct {
	Client *Client
	// Base sends the requests; nil means http.DefaultTransport.
	Base http.RoundTripper
	// Key returns the key to wait for, "" for a request that is sent without
	// asking. nil means HostKey.
	Key func(*http.Request) string
	// Policy is asked by its name; the key's own where it is "".
	Policy string
	// Cost returns what a request costs; nil means 1.
	Cost func(*http.Request) int
	// MaxWait bounds each wait; 0 means as long as the request's context
	// lasts. Danger: a context without an end may wait for hours.
	MaxWait time.Duration
}

// HostKey returns "host:" and the host that a request goes to, in lower case
// and without its port.
func HostKey(r *http.Request) string { return "host:" + strings.ToLower(r.URL.Hostname()) }

// RoundTrip waits and sends the request.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.wait(r); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // a RoundTripper closes it whatever happens
		}
		return nil, err
	}
	if t.Base == nil {
		return http.DefaultTransport.RoundTrip(r)
	}
	return t.Base.RoundTrip(r)
}

func (t *Transport) wait(r *http.Request) error {
	q := Check{Policy: t.Policy, MaxWait: t.MaxWait, Detail: DetailNone}
	if t.Key == nil {
		q.Key = HostKey(r)
	} else if q.Key = t.Key(r); q.Key == "" {
		return nil
	}
	if t.Cost != nil {
		q.Cost = t.Cost(r)
	}
	d, err := t.Client.Wait(r.Context(), q)
	if err == nil && !d.Allowed {
		err = &Refused{Decision: d}
	}
	return err
}
