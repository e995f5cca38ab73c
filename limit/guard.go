package limit

import (
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"
)

// Guard is a middleware for net/http, and for chi, echo, gin, connect and everything else that takes handlers. Only Limiter is required: then each address
// is limited, and answered 503 while the store does not answer.
type Guard struct {
	Limiter *Limiter
	// Key returns the key of a request, "" for one that is not limited; nil for AddressKey. Danger: a client that can
	// make the key empty has no limit.
	Key func(*http.Request) string
	// FailOpen lets requests pass that the store did not decide.
	FailOpen bool
	// OnError, if not nil, is called for each of these.
	OnError func(*http.Request, error)
}

// Handler returns next behind the guard. A refused request is answered 429 with Retry-After.
func (g *Guard) Handler(next http.Handler) http.Handler {
	keyOf := g.Key
	if keyOf == nil {
		keyOf = AddressKey
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := keyOf(r)
		if key == "" {
			next.ServeHTTP(w, r)
			return
		}
		result, err := g.Limiter.Allow(r.Context(), key)
		if err != nil && g.OnError != nil {
			g.OnError(r, err)
		}
		switch {
		case err == nil && result.Allowed, err != nil && g.FailOpen:
			next.ServeHTTP(w, r)
		case err != nil:
			http.Error(w, "The request cannot be counted at the moment.", http.StatusServiceUnavailable)
		default:
			if result.RetryAfter != Never {
				w.Header().Set("Retry-After", RetryAfterSeconds(result.RetryAfter))
			}
			http.Error(w, "Too many requests.", http.StatusTooManyRequests)
		}
	})
}

// RetryAfterSeconds returns a wait as the header Retry-After has it: whole seconds, rounded up.
func RetryAfterSeconds(wait time.Duration) string {
	return strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10)
}

// AddressKey returns the key of the address that connected, such as "ip:203.0.113.7". Behind a proxy that is the proxy's: read the header
// there that your proxy writes, and no other.
func AddressKey(r *http.Request) string { return KeyOfAddress(r.RemoteAddr) }

// KeyOfAddress returns the key of an address with or without its port; all texts that are none share "peer:unknown".
func KeyOfAddress(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	at, err := netip.ParseAddr(address)
	if err != nil {
		return "peer:unknown"
	}
	return "ip:" + at.WithZone("").Unmap().String()
}
