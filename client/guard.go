package client

import (
	"context"
	"net/http"
	"time"
)

// Guard is a middleware for net/http that lets a request through only if
// Stint allows it. Only Client is required. It is safe for concurrent use as long as its
// fields do not change.
//
// It answers refused requests itself, as ReplyTo describes, and sends each client its
// quota in the headers RateLimit and RateLimit-Policy. It leads challenged browsers to
// the paths of challenges, and serves ChallengeHandler there. During an outage, the Client's
// WithOutage decides.
type Guard struct {
	Client *Client
	// Key returns the key of a request; nil means AddressKey. A request with an empty
	// key is allowed without a check, for example a health check. Danger: a client that can
	// make the key empty has no limit, so use a fallback if the key comes from a header.
	Key func(*http.Request) string
	// Policy names the policy to check; "" selects the best match for the key.
	Policy string
	// Cost returns what a request costs; nil means 1.
	Cost func(*http.Request) int
	// Hold holds the cost of each request until its answer has been written; see Check. The hold renews itself.
	// Policies with a rule such as "16 concurrent" hold without it.
	Hold time.Duration
	// Used returns what a request used, when its answer has been written, also if it broke off; nil means
	// what was held. A request whose handler panics is released.
	Used func(*http.Request) int64
	// Meta returns what is shown with an offence; nil means nothing.
	Meta func(*http.Request) map[string]string
	// Remember refuses keys from the Client's memory while they are known to be refused,
	// which keeps a flood away from Stint. Such refusals are not counted as offences and
	// do not escalate.
	Remember bool
	// OnError, if not nil, is called for each request that the server did not decide, even
	// if FailOpen or FailClosed did.
	OnError func(*http.Request, error)
}

// Handler returns next behind the guard.
func (g *Guard) Handler(next http.Handler) http.Handler {
	key := g.Key
	if key == nil {
		key = AddressKey
	}
	challenges := g.Client.ChallengeHandlerBy(key)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if IsChallengePath(r.URL.EscapedPath()) {
			challenges.ServeHTTP(w, r)
			return
		}
		q, asked := g.question(r)
		if !asked {
			next.ServeHTTP(w, r)
			return
		}
		d, err := g.Client.Check(r.Context(), q)
		g.report(r, d, err)
		reply := ReplyTo(d, err)
		for name, values := range reply.Header {
			w.Header()[name] = values
		}
		if reply.Status == 0 {
			r = r.WithContext(context.WithValue(r.Context(), decisionKey{}, d))
			usage := g.Client.Keep(context.WithoutCancel(r.Context()), d.Held) // next may go on when the client has gone
			defer func() { _ = usage.Release(r.Context()) }()                  // if next panics; otherwise it is settled already
			next.ServeHTTP(w, r)
			g.settle(r, usage)
			return
		}
		if to := ChallengeOf(d, r.Method, r.URL.RequestURI(), r.Header.Get); to != "" {
			w.Header().Del("Content-Type")
			w.Header().Set("Vary", "Accept, Cookie, Sec-Fetch-Dest, Sec-Fetch-Mode")
			http.Redirect(w, r, to, http.StatusSeeOther)
			return
		}
		w.WriteHeader(reply.Status)
		_, _ = w.Write(reply.Body) // the client may have closed the connection
	})
}

func (g *Guard) question(r *http.Request) (Check, bool) {
	q := Check{Policy: g.Policy, Hold: g.Hold, Detail: DetailRules, Fresh: !g.Remember, Request: RequestOf(r), Pass: passOf(r)}
	if g.Key == nil {
		q.Key = AddressKey(r)
	} else if q.Key = g.Key(r); q.Key == "" {
		return q, false
	}
	if g.Cost != nil {
		q.Cost = g.Cost(r)
	}
	if g.Meta != nil {
		q.Meta = g.Meta(r)
	}
	return q, true
}

func (g *Guard) report(r *http.Request, d *Decision, err error) {
	if err == nil {
		err = d.Outage
	}
	if err != nil && g.OnError != nil {
		g.OnError(r, err)
	}
}

// settle charges what r used.
func (g *Guard) settle(r *http.Request, usage *Usage) {
	used := AsHeld
	if g.Used != nil {
		used = g.Used(r)
	}
	if _, err := usage.Settle(r.Context(), used); err != nil && g.OnError != nil {
		g.OnError(r, err)
	}
}

type decisionKey struct{}

// DecisionOf returns the decision by which a Guard let the request of ctx through, nil if
// none did.
func DecisionOf(ctx context.Context) *Decision {
	d, _ := ctx.Value(decisionKey{}).(*Decision)
	return d
}
