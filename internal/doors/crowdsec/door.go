// Package crowdsec implements the part of CrowdSec's local API that bouncers use: firewalls,
// proxies and applications that enforce the active blocks. Paths, names and responses are
// CrowdSec's; it calls a block a "decision".
package crowdsec

import (
	"context"
	"iter"
	"net/http"
	"net/netip"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/bouncers"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

// The paths of CrowdSec's local API.
const (
	pathDecisions = "/v1/decisions"
	pathStream    = "/v1/decisions/stream"
	pathMetrics   = "/v1/usage-metrics"
)

// tokenHeader is the header of a bouncer's token.
const tokenHeader = "X-Api-Key"

// Cases are the use cases that the door calls.
type Cases interface {
	Pull(ctx context.Context, c admin.BouncerCaller, startup bool, f bouncers.Filter) (*admin.StreamAnswer, error)
	OfAddress(a netip.Addr, f bouncers.Filter) []bouncers.Ban
	OfRange(network netip.Prefix, f bouncers.Filter) []bouncers.Ban
	OfKey(scope, value string, f bouncers.Filter) ([]bouncers.Ban, error)
	All(f bouncers.Filter) iter.Seq[bouncers.Ban]
	NoteLive(c admin.BouncerCaller, sent int64) (write func(context.Context) error)
}

var _ Cases = (*admin.Bouncers)(nil)

// Door is the front end for bouncers.
type Door struct{ cases Cases }

// New returns the door.
func New(cases Cases) *Door { return &Door{cases} }

// Routes returns the door's routes. They always need a token, even if checks do not: the
// responses name everybody who is blocked.
func (d *Door) Routes() []httpserver.Route {
	route := func(method, path string, handle httpserver.Handler) httpserver.Route {
		return httpserver.Route{
			Listener: httpserver.Checks, Method: method, Path: path, Access: identity.Bouncer, Handler: handle,
			Failed: answerError, TokenHeader: tokenHeader,
		}
	}
	return []httpserver.Route{
		route(http.MethodGet, pathDecisions, d.handleDecisions),
		route(http.MethodGet, pathStream, d.handleStream),
		route(http.MethodPost, pathMetrics, handleMetrics),
	}
}

// caller returns the bouncer that sent a request.
func caller(c *httpserver.Call) admin.BouncerCaller {
	kind, version := bouncers.ParseAgent(string(c.Request().Header.UserAgent()))
	return admin.BouncerCaller{ID: bouncers.ID{TokenID: c.Principal.ID, Address: c.Address, Type: kind}, Version: version}
}

// isProbe reports whether a request only checks that the API exists. It does not advance the
// cursor.
func isProbe(c *httpserver.Call) bool { return c.Method() == http.MethodHead }

func (d *Door) handleDecisions(c *httpserver.Call) error {
	q, err := parseQuery(c)
	if err != nil {
		return err
	}
	if isProbe(c) || q.none {
		return answerText(c, none)
	}
	if q.isOpen() {
		return d.answerAll(c, d.cases.All(q.filter))
	}
	found, err := d.find(q)
	if err != nil {
		return err
	}
	return d.answerFound(c, found)
}

// find returns the bans that a query selects.
func (d *Door) find(q *query) ([]bouncers.Ban, error) {
	switch {
	case q.address.IsValid():
		return d.cases.OfAddress(q.address, q.filter), nil
	case q.network.IsValid():
		return d.cases.OfRange(q.network, q.filter), nil
	}
	var all []bouncers.Ban
	for _, scope := range q.scopes {
		found, err := d.cases.OfKey(scope, q.value, q.filter)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func (d *Door) handleStream(c *httpserver.Call) error {
	q, err := parseQuery(c)
	if err != nil {
		return err
	}
	if isProbe(c) {
		return answerText(c, `{"new":[],"deleted":[]}`)
	}
	answer, err := d.cases.Pull(c.Context(), caller(c), q.startup, q.filter)
	if err != nil {
		return err
	}
	return answerStream(c, answer)
}

// handleMetrics accepts the counts of a bouncer and ignores them: what bouncers refuse is not
// traffic of Stint.
func handleMetrics(c *httpserver.Call) error {
	body, err := c.ReadBody(httpserver.MaxBody)
	if err != nil {
		return err
	}
	if !jsontext.Value(body).IsValid() {
		return fault.New(fault.Malformed, "The body is not valid JSON.")
	}
	c.Status(http.StatusCreated)
	return nil
}

func answerText(c *httpserver.Call, text string) error {
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSONCharsetUTF8)
	return c.SendString(text)
}
