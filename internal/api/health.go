package api

import (
	"context"
	"net/http"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/bouncers"
	"github.com/stint-dev/stint/internal/buildinfo"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

// healthHandler answers probes, and lists the nodes.
type healthHandler struct {
	common
	ready    func(ctx context.Context) wire.Readiness // nil checks the catalog only
	nodes    *operations.Nodes
	build    buildinfo.Info
	crawlers *operations.Crawlers
}

func (h *healthHandler) routes() []route {
	return []route{
		onChecks(get, "/livez", identity.Public, h.handleLive, nil),
		onChecks(get, "/readyz", identity.Public, h.handleReady, nil),
		onAdmin(get, "/livez", identity.Public, h.handleLive, opLive),
		onAdmin(get, "/readyz", identity.Public, h.handleReady, opReady),
		onAdmin(get, wire.PathVersion, identity.Read, h.getVersion, opVersion),
		onAdmin(get, wire.PathNodes, identity.Read, h.listNodes, opListNodes),
		onAdmin(get, wire.PathCrawlers, identity.Read, h.listCrawlers, opListCrawlers),
	}
}

var (
	opLive = &openapi.Operation{
		ID: "live", Tag: "health", Summary: "Check that the process is alive.",
		Answers: []openapi.Answer{{Status: http.StatusOK, Doc: "The process is alive.", Types: []string{"text/plain"}}},
	}
	opReady = &openapi.Operation{
		ID: "ready", Tag: "health", Summary: "Show whether this node can answer checks, and which part fails.",
		Answers: append(ok("The node is ready.", wire.Readiness{}), openapi.Answer{Status: http.StatusServiceUnavailable, Doc: "The node is not ready.", Body: wire.Readiness{}}),
	}
	opVersion = &openapi.Operation{
		ID: "version", Tag: "health", Summary: "Show the version and build of this node.", Answers: ok("The build.", wire.Build{}),
	}
	opListNodes = &openapi.Operation{
		ID: "listNodes", Tag: "health", Summary: "List the nodes seen lately, with their load.",
		Answers: ok("The nodes by name.", wire.Page[wire.Node]{}),
	}
)

var opListCrawlers = &openapi.Operation{
	ID: "listCrawlers", Tag: "health", Summary: "List the crawlers that this node has verified by DNS; none unless the setting verified-crawlers names operators.",
	Answers: ok("The crawlers by operator and address.", wire.Page[wire.Crawler]{}),
}

func (h *healthHandler) listCrawlers(c *httpserver.Call) error {
	if err := c.ParseQuery().Err(); err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, singlePage(h.crawlers.List(), func(k operations.Crawler) wire.Crawler {
		return wire.Crawler{Address: k.Address.String(), Operator: k.Operator, Name: k.Name, VerifiedAt: wire.At(k.Verified)}
	}))
}

func (h *healthHandler) handleLive(c *httpserver.Call) error {
	c.Set(fiber.HeaderContentType, fiber.MIMETextPlainCharsetUTF8)
	return c.SendString("ok\n")
}

func (h *healthHandler) getVersion(c *httpserver.Call) error {
	if err := c.ParseQuery().Err(); err != nil {
		return err
	}
	b := h.build
	return c.SendJSON(http.StatusOK, wire.Build{Version: b.Version, Commit: b.Commit, Date: wire.At(b.Date), Go: b.Go})
}

func (h *healthHandler) handleReady(c *httpserver.Call) error {
	r := h.readiness(c.Context())
	status := http.StatusOK
	if !r.Ready {
		status = http.StatusServiceUnavailable
	}
	return c.SendJSON(status, r)
}

func (h *healthHandler) readiness(ctx context.Context) wire.Readiness {
	if h.ready != nil {
		return h.ready(ctx)
	}
	part := wire.Part{Name: "catalog", OK: h.catalog.Loaded()}
	if !part.OK {
		part.Detail = "The policies and blocks have not been loaded yet."
	} else if since, err := h.catalog.Failing(); err != nil {
		part.OK, part.Since = false, wire.At(since)
		part.Detail = "The database is unreachable; checks go on with the last policies and blocks known."
	}
	return wire.Readiness{Ready: h.catalog.Loaded(), Changes: part.OK, Parts: []wire.Part{part}}
}

func (h *healthHandler) listNodes(c *httpserver.Call) error {
	all, err := h.nodes.List(c.Context())
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, singlePage(all, fromNode))
}

// fromNode returns a node as the API shows it.
func fromNode(n operations.Node) wire.Node {
	node := wire.Node{
		ID: n.ID, Name: n.Name, Version: n.Version, StartedAt: wire.At(n.Started), SeenAt: wire.At(n.Seen),
		RequestsPerSecond: n.PerSecond, P99MS: float64(n.P99.Microseconds()) / 1000, Degraded: n.Degraded, Revision: n.Revision,
	}
	if m := n.Memory; m.MaxBytes > 0 {
		node.Memory = &wire.NodeMemory{
			Bytes: m.Bytes, MaxBytes: m.MaxBytes, Forgetting: n.Forgetting(), ForgottenKeys: m.Forgotten,
			LastForgottenAt: wire.At(m.LastForgotten), UncountedRequests: m.Unkept,
		}
	}
	return node
}

// bouncerHandler lists the bouncers.
type bouncerHandler struct{ bouncers *admin.Bouncers }

func (h *bouncerHandler) routes() []route {
	return []route{onAdmin(get, wire.PathBouncers, identity.Read, h.listBouncers, opListBouncers)}
}

var opListBouncers = &openapi.Operation{
	ID: "listBouncers", Tag: "bouncers", Summary: "List the CrowdSec bouncers that have fetched blocks in the last 30 days.",
	Answers: ok("The bouncers by token and address.", wire.Page[wire.Bouncer]{}),
}

func (h *bouncerHandler) listBouncers(c *httpserver.Call) error {
	all, err := h.bouncers.List(c.Context())
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, singlePage(all, fromBouncer))
}

func fromBouncer(b bouncers.Bouncer) wire.Bouncer {
	return wire.Bouncer{
		Type: b.Type, Version: b.Version, Mode: string(b.Mode), TokenID: b.TokenID, Token: b.TokenName, Address: b.Address.String(),
		FirstSeen: wire.At(b.First), LastPulled: wire.At(b.Last), Sent: b.Sent, Warning: b.Warning(),
	}
}
