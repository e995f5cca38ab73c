package limit

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/stint-dev/stint/client"
)

// Guard is a middleware for net/http, and for chi, echo, gin, connect and everything else that takes handlers. Only Limiter is required: then each address
// is limited, and answered 503 while the store does not answer.
type Guard struct {
	Limiter *Limiter
	// Key returns the key of a request, "" for one that is not limited; nil for client.AddressKey. Behind a proxy use client.AddressKeyBehind.
	// Danger: a client that can make the key empty has no limit.
	Key func(*http.Request) string
	// FailOpen lets requests pass while Redis does not answer. Other errors, such as that of a key that is not valid, are answered 503
	// in any case.
	FailOpen bool
	// OnError, if not nil, is called with each error.
	OnError func(*http.Request, error)
}

// Handler returns next behind the guard. A refused request is answered 429 with Retry-After.
func (g *Guard) Handler(next http.Handler) http.Handler {
	keyOf := g.Key
	if keyOf == nil {
		keyOf = client.AddressKey
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := keyOf(r)
		if key == "" {
			next.ServeHTTP(w, r)
			return
		}
		// A client that goes away at once is charged too.
		result, err := g.Limiter.Allow(context.WithoutCancel(r.Context()), key)
		if err != nil && g.OnError != nil {
			g.OnError(r, err)
		}
		switch {
		case err == nil && result.Allowed, g.FailOpen && errors.Is(err, ErrUnavailable):
			next.ServeHTTP(w, r)
		case err != nil:
			http.Error(w, "The request cannot be counted at the moment.", http.StatusServiceUnavailable)
		default:
			if wait := RetryAfterSeconds(result.RetryAfter); wait != "" {
				w.Header().Set("Retry-After", wait)
			}
			http.Error(w, "Too many requests.", http.StatusTooManyRequests)
		}
	})
}

// RetryAfterSeconds returns a wait as the header Retry-After has it, in whole seconds, rounded up; "" for Never.
func RetryAfterSeconds(wait time.Duration) string {
	if wait == Never {
		return ""
	}
	return strconv.FormatInt(int64(math.Ceil(wait.Seconds())), 10)
}
