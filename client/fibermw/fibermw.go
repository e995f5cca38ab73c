// Package fibermw is the middleware of package client for fiber.
package fibermw

import (
	"net/netip"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/client/internal/peer"
)

// Config says what is asked about a request. Only Client must be set.
type Config struct {
	Client *client.Client
	// Key returns the key of a request; nil means AddressKey. A request with an empty
	// key is allowed without a check, for health checks and the like. Danger: a client
	// that can make it empty has no limit. Danger: fiber's own c.IP() behind a proxy is
	// what the client claims; see AddressKeyBehind.
	Key func(*fiber.Ctx) string
	// Policy is asked by its name; the key's own where it is "".
	Policy string
	// Cost returns what a request costs; nil means 1.
	Cost func(*fiber.Ctx) int
	// Meta returns what is shown with an offence; nil means nothing.
	Meta func(*fiber.Ctx) map[string]string
	// Remember answers from the Client's memory a key known to be refused,
	// which spares Stint a flood. Such refusals are not counted as offences, so
	// that escalations see less of them.
	Remember bool
	// OnError, if not nil, is called for each request without a decision of the server,
	// also during an outage that FailOpen or FailClosed decides.
	OnError func(*fiber.Ctx, error)
}

// decisionLocal is what fiber keeps the decision under.
type decisionLocal struct{}

// New returns a handler that lets a request through only where Stint allows it,
// and answers it itself where not, as client.ReplyTo says.
func New(config Config) fiber.Handler {
	return func(c *fiber.Ctx) error {
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
			return c.Next()
		}
		return c.Status(reply.Status).Send(reply.Body)
	}
}

func (config *Config) question(c *fiber.Ctx) (client.Check, bool) {
	q := client.Check{Policy: config.Policy, Detail: client.DetailRules, Fresh: !config.Remember, Request: requestOf(c)}
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

// requestOf returns what is said of a request, in strings of its own: fiber's live as long
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

// DecisionOf returns the decision by which a request was let through; nil where
// none was asked for.
func DecisionOf(c *fiber.Ctx) *client.Decision {
	d, _ := c.Locals(decisionLocal{}).(*client.Decision)
	return d
}

// AddressKey returns "ip:" and the address that a request comes from: that of
// the connection, whatever its headers say.
func AddressKey(c *fiber.Ctx) string { return peer.Key(c.Context().RemoteAddr().String()) }

// AddressKeyBehind returns what AddressKey does for requests that come through
// the proxies in trusted: the nearest address in X-Forwarded-For that is none of
// theirs, read from the right. Name no network that clients are in.
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
