package client

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Transport is an http.RoundTripper that waits for its reservation before it calls
// an API. All programs that use the same Stint together keep that API's limits. Only
// Client is required. It is safe for concurrent use as long as its fields do not change.
//
//	outside := &http.Client{Transport: &client.Transport{Client: stint}}
//
// A request waits within its context and MaxWait, and so within http.Client's
// Timeout. If its reservation would be too late, the request is not sent and the error
// wraps a *Refused. Each redirect is a request of its own; what Base repeats by itself is
// not.
//
// An answer 429 or 503 with Retry-After is returned unchanged and holds the key: until
// that time this Transport sends no further requests with the key, and with Admin no
// program that uses the same Stint does. Requests that were already sent are not
// cancelled.
type Transport struct {
	Client *Client
	// Base sends the requests; nil means http.DefaultTransport.
	Base http.RoundTripper
	// Key returns the key to wait for, "" for a request that is sent without
	// asking. nil means HostKey. Danger: an answer holds the key for every API that
	// shares it.
	Key func(*http.Request) string
	// Policy names the policy to check; "" selects the best match for the key.
	Policy string
	// Cost returns what a request costs; nil means 1.
	Cost func(*http.Request) int
	// MaxWait bounds each wait; 0 means until the request's context ends. Danger: without a
	// deadline that may be hours.
	MaxWait time.Duration
	// MaxInFlight is how many requests of one key may be in flight at once, 0 for any
	// number. A request is in flight until the body of its answer is closed.
	MaxInFlight int
	// Admin is a client of the admin listener with a token of the scope operate. With it, an
	// answer with Retry-After also blocks the key in Stint until then; nil holds the key in
	// this Transport only.
	Admin *Client
	// MaxHold bounds for how long one answer holds the key; 0 means an hour.
	MaxHold time.Duration
	// OnError, if not nil, is called with each error of Admin, possibly concurrently.
	OnError func(error)

	holds    holds
	inFlight inFlight
}

// HostKey returns "host:" and the host that a request goes to, in lower case
// and without its port and the dot at its end.
func HostKey(r *http.Request) string {
	return "host:" + strings.TrimSuffix(strings.ToLower(r.URL.Hostname()), ".")
}

// RoundTrip waits and sends the request.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	key := t.keyOf(r)
	if key == "" {
		return t.base().RoundTrip(r)
	}
	leave, err := t.enter(r, key)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // a RoundTripper closes it whatever happens
		}
		return nil, err
	}
	response, err := t.base().RoundTrip(r)
	if err != nil {
		leave()
		return nil, err
	}
	if wait := retryAfter(response, time.Now()); wait > 0 {
		t.hold(r.Context(), key, wait, response.StatusCode)
	}
	response.Body = leaveAtEnd(response.Body, leave)
	return response, nil
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

func (t *Transport) keyOf(r *http.Request) string {
	if t.Key == nil {
		return HostKey(r)
	}
	return t.Key(r)
}

// enter waits until a request of key may be sent. What it returns must be called once
// the request is no longer in flight.
func (t *Transport) enter(r *http.Request, key string) (leave func(), err error) {
	ctx := r.Context()
	if t.MaxWait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.MaxWait)
		defer cancel()
	}
	deadline, bounded := ctx.Deadline()
	leave = func() {}
	if t.MaxInFlight > 0 {
		if err := t.inFlight.enter(ctx, key, t.MaxInFlight); err != nil {
			if r.Context().Err() != nil {
				return nil, r.Context().Err()
			}
			return nil, &Refused{Decision: &Decision{Answer: Answer{Outcome: Limited}, Key: key, Policy: t.Policy}}
		}
		leave = sync.OnceFunc(func() { t.inFlight.leave(key) })
	}
	for {
		if err = t.holds.wait(ctx, key, deadline, bounded); err != nil {
			break
		}
		var again bool
		if again, err = t.reserve(r, key, deadline); err != nil || !again {
			break
		}
	}
	if err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// longDelay is the wait after which the key is checked again, because another program may have
// held it in the meantime.
const longDelay = time.Second

// reserve waits for a reservation, and reports whether the key was held while it did, so
// that another is needed.
func (t *Transport) reserve(r *http.Request, key string, deadline time.Time) (again bool, err error) {
	q := Check{Key: key, Policy: t.Policy, Detail: DetailNone}
	if t.Cost != nil {
		q.Cost = t.Cost(r)
	}
	if t.MaxWait > 0 {
		q.MaxWait = max(time.Millisecond, time.Until(deadline))
	}
	d, err := t.Client.Wait(r.Context(), q)
	if err != nil {
		return false, err
	}
	if t.holds.isHeld(key) {
		return true, nil
	}
	if t.Admin == nil || d.Delay < longDelay {
		return false, nil
	}
	now, err := t.Client.Check(r.Context(), Check{Key: key, Policy: t.Policy, Cost: q.Cost, Peek: true, Fresh: true, Detail: DetailNone})
	// The reservation is ours: an outage takes it from nobody.
	return err == nil && now.Outcome == Blocked, nil
}
