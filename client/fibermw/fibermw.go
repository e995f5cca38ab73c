// Package fibermw is the middleware of package client for fiber.
package fibermw

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
	"github.com/valyala/fasthttp"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/client/internal/peer"
)

// Config says how requests are checked; its fields are those of client.Guard. Only Client is
// required.
type Config struct {
	Client *client.Client
	// Key returns the key of a request; nil means AddressKey. A request with an empty
	// key is allowed without a check, for example a health check. Danger: a client that can
	// make the key empty has no limit, so use a fallback if the key comes from a header.
	// Danger: fiber's own c.IP() behind a proxy is what the client claims; see
	// AddressKeyBehind.
	Key func(*fiber.Ctx) string
	// Policy names the policy to check; "" selects the best match for the key.
	Policy string
	// Cost returns what a request costs; nil means 1.
	Cost func(*fiber.Ctx) int
	// Hold holds the cost of each request until its handlers have returned; see client.Check. The hold renews
	// itself. Policies with a rule such as "16 concurrent" hold without it. A handler that streams its
	// answer settles by UsageOf when the stream ends.
	Hold time.Duration
	// Used returns what a request used, when its handlers have returned; nil means what was held. A
	// request whose handler panics is released.
	Used func(*fiber.Ctx) int64
	// Meta returns what is shown with an offence; nil means nothing.
	Meta func(*fiber.Ctx) map[string]string
	// Remember refuses keys from the Client's memory while they are known to be refused,
	// which keeps a flood away from Stint. Such refusals are not counted as offences and
	// do not escalate.
	Remember bool
	// ReportStatus reports the status of each answer by client.ReportSoon, for policies with outcomes or
	// evidence: Stint finds by it that a page was missing or a login failed, and learns what the site has.
	ReportStatus bool
	// OnError, if not nil, is called for each request that the server did not decide, even
	// if FailOpen or FailClosed did.
	OnError func(*fiber.Ctx, error)
}

// decisionLocal is the key of the decision among fiber's locals.
type decisionLocal struct{}

// New returns a handler that lets a request through only if Stint allows it, and answers refused
// requests itself, as client.ReplyTo describes.
func New(config Config) fiber.Handler {
	return func(c *fiber.Ctx) error {
		if client.IsChallengePath(string(c.Request().URI().PathOriginal())) {
			return config.challenge(c)
		}
		q, asked := config.question(c)
		if !asked {
			return c.Next()
		}
		d, err := config.Client.Check(c.UserContext(), q)
		config.report(c, d, err)
		reply := client.ReplyTo(d, err)
		for name, values := range reply.Header {
			c.Set(name, values[0])
		}
		if reply.Status == 0 {
			c.Locals(decisionLocal{}, d)
			if config.ReportStatus {
				c.Locals(answerLocal{}, &answer{c.Context(), config.Client, client.Report{Key: q.Key, Request: q.Request}})
			}
			return config.next(c, d)
		}
		if to := client.ChallengeOf(d, c.Method(), c.OriginalURL(), func(name string) string { return c.Get(name) }); to != "" {
			c.Response().Header.Del(fiber.HeaderContentType)
			c.Set(fiber.HeaderVary, "Accept, Cookie, Sec-Fetch-Dest, Sec-Fetch-Mode")
			return c.Redirect(to, fiber.StatusSeeOther)
		}
		return c.Status(reply.Status).Send(reply.Body)
	}
}

// challenge hands a request for one of the paths of challenges on to Stint.
func (config *Config) challenge(c *fiber.Ctx) error {
	key := AddressKey(c)
	if config.Key != nil {
		key = strings.Clone(config.Key(c))
	}
	return adaptor.HTTPHandler(config.Client.ChallengeHandlerBy(func(*http.Request) string { return key }))(c)
}

// next calls the handlers and settles what the request holds.
func (config *Config) next(c *fiber.Ctx, d *client.Decision) error {
	if d.Held == nil {
		return c.Next()
	}
	ctx := context.WithoutCancel(c.UserContext())
	usage := config.Client.Keep(ctx, d.Held)
	c.Locals(usageLocal{}, usage)
	streams := false
	defer func() {
		if !streams {
			_ = usage.Release(ctx) // if a handler panics; otherwise it is settled already
		}
	}()
	err := c.Next()
	if streams = c.Response().IsBodyStream(); streams {
		c.Locals(streamLocal{}, &stream{ctx, usage})
		return err
	}
	used := client.AsHeld
	if config.Used != nil {
		used = config.Used(c)
	}
	if _, settling := usage.Settle(ctx, used); settling != nil && config.OnError != nil {
		config.OnError(c, settling)
	}
	return err
}

// usageLocal is the key of the usage among fiber's locals.
type usageLocal struct{}

// streamLocal is the key of a stream among fiber's locals.
type streamLocal struct{}

// stream is a streamed answer of a request that holds something. fasthttp closes what a request has when its
// answer has been written, also if it broke off or the client went away.
type stream struct {
	ctx   context.Context
	usage *client.Usage
}

// Close settles with what was held, unless the handler has settled the usage.
func (s *stream) Close() error {
	_, err := s.usage.Settle(s.ctx, client.AsHeld)
	return err
}

// answerLocal is the key of an answer among fiber's locals.
type answerLocal struct{}

// answer reports the status of an answer once it has been written: only then have error handlers set it. fasthttp
// resets the response after it has closed what a request has.
type answer struct {
	ctx    *fasthttp.RequestCtx
	client *client.Client
	report client.Report
}

// Close reports the status.
func (a *answer) Close() error {
	a.report.Status = a.ctx.Response.StatusCode()
	a.client.ReportSoon(a.report)
	return nil
}

// UsageOf returns what the request holds, nil if it holds nothing. A handler that streams its answer
// settles it with what it used when the stream ends; otherwise it is settled with what was held once the answer has
// been written or has broken off. The usage lives longer than c.
func UsageOf(c *fiber.Ctx) *client.Usage {
	u, _ := c.Locals(usageLocal{}).(*client.Usage)
	return u
}

func (config *Config) question(c *fiber.Ctx) (client.Check, bool) {
	q := client.Check{Policy: config.Policy, Hold: config.Hold, Detail: client.DetailRules, Fresh: !config.Remember, Request: requestOf(c)}
	for name, value := range c.Request().Header.Cookies() {
		if string(name) == client.PassCookie {
			q.Pass = client.JoinPasses(q.Pass, string(value))
		}
	}
	if config.Key == nil {
		q.Key = AddressKey(c)
	} else if q.Key = strings.Clone(config.Key(c)); q.Key == "" { // fiber's strings live as long as the request
		return q, false
	}
	if config.Cost != nil {
		q.Cost = config.Cost(c)
	}
	if config.Meta != nil {
		q.Meta = config.Meta(c)
	}
	return q, true
}

// requestOf returns the description of a request, in strings of its own: fiber's live as long
// as the request.
func requestOf(c *fiber.Ctx) client.Request {
	return client.Request{
		Path: string(c.Request().URI().PathOriginal()), Method: string(c.Request().Header.Method()),
		Agent: string(c.Request().Header.UserAgent()), Host: string(c.Request().Host()),
	}
}

func (config *Config) report(c *fiber.Ctx, d *client.Decision, err error) {
	if err == nil {
		err = d.Outage
	}
	if err != nil && config.OnError != nil {
		config.OnError(c, err)
	}
}

// DecisionOf returns the decision by which the handler let a request through, nil if none did.
func DecisionOf(c *fiber.Ctx) *client.Decision {
	d, _ := c.Locals(decisionLocal{}).(*client.Decision)
	return d
}

// AddressKey returns "ip:" and the address that a request comes from: that of
// the connection, whatever its headers say.
func AddressKey(c *fiber.Ctx) string { return peer.Key(c.Context().RemoteAddr().String()) }

// AddressKeyBehind returns what AddressKey does for requests that come through
// the proxies in trusted: the rightmost address in X-Forwarded-For that is not one
// of theirs. Any other request has the address of its connection. Do not trust a
// network that contains clients: they could then choose their own address.
func AddressKeyBehind(trusted ...netip.Prefix) func(*fiber.Ctx) string {
	proxies := peer.Proxies(trusted)
	return func(c *fiber.Ctx) string {
		var forwarded []string
		for _, line := range c.Request().Header.PeekAll("X-Forwarded-For") {
			forwarded = append(forwarded, string(line))
		}
		return proxies.Key(c.Context().RemoteAddr().String(), forwarded)
	}
}
