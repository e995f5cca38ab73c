package client

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
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
	// Used returns what a request used, when its answer has been written, also if it broke off or the client
	// left; nil means what was held. A request whose handler panics is released, unless it panics with
	// http.ErrAbortHandler, by which handlers such as httputil.ReverseProxy break an answer off.
	Used func(*http.Request) int64
	// Meta returns what is shown with an offence; nil means nothing.
	Meta func(*http.Request) map[string]string
	// Remember refuses keys from the Client's memory while they are known to be refused,
	// which keeps a flood away from Stint. Such refusals are not counted as offences and
	// do not escalate.
	Remember bool
	// ReportStatus reports the status of each answer by ReportSoon, for policies with outcomes or evidence: Stint
	// finds by it that a page was missing or a login failed, and learns what the site has.
	ReportStatus bool
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
			defer g.settleAborted(r, usage)
			g.serve(next, w, r, &q)
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

// serve calls next, and reports the status of its answer.
func (g *Guard) serve(next http.Handler, w http.ResponseWriter, r *http.Request, q *Check) {
	if !g.ReportStatus {
		next.ServeHTTP(w, r)
		return
	}
	a := &statusWriter{ResponseWriter: w}
	report := Report{Key: q.Key, Request: q.Request, Status: http.StatusInternalServerError} // if next panics
	defer func() {
		if a.status != 0 {
			report.Status = a.status
		}
		g.Client.ReportSoon(report)
	}()
	next.ServeHTTP(a.writer(), r)
	report.Status = http.StatusOK
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

// settleAborted settles if the handler has broken its answer off. It must be deferred.
func (g *Guard) settleAborted(r *http.Request, usage *Usage) {
	if usage == nil {
		return
	}
	if cause := recover(); cause != nil {
		if err, is := cause.(error); is && errors.Is(err, http.ErrAbortHandler) {
			g.settle(r, usage)
		}
		panic(cause)
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

// statusWriter notes the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int // 0 until it is known
}

// WriteHeader notes the status. Those below 200 but 101 come before it.
func (a *statusWriter) WriteHeader(status int) {
	if a.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// ReadFrom keeps sendfile.
func (a *statusWriter) ReadFrom(from io.Reader) (int64, error) {
	return io.Copy(a.ResponseWriter, from)
}

// Unwrap is for http.ResponseController.
func (a *statusWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// writer returns a writer that can do what that of the server can: handlers ask for it by assertions.
func (a *statusWriter) writer() http.ResponseWriter {
	switch w := a.ResponseWriter.(type) {
	case interface {
		flusher
		http.Hijacker
	}: // HTTP/1
		return struct {
			*statusWriter
			flusher
			hijacker
		}{a, w, hijacker{a, w}}
	case interface {
		flusher
		http.Pusher
	}: // HTTP/2
		return struct {
			*statusWriter
			flusher
			http.Pusher
		}{a, w, w}
	case http.Flusher:
		return struct {
			*statusWriter
			http.Flusher
		}{a, w}
	}
	return a
}

type flusher interface {
	http.Flusher
	http.CloseNotifier //nolint:staticcheck // gin asserts it
}

// hijacker notes that a connection is no longer one of HTTP.
type hijacker struct {
	a *statusWriter
	w http.Hijacker
}

// Hijack takes over the connection, as for a WebSocket.
func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if h.a.status == 0 {
		h.a.status = http.StatusSwitchingProtocols
	}
	return h.w.Hijack()
}
