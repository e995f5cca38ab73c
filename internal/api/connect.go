package api

import (
	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

// connectRoutes show how gateways are connected, at the name by which the caller reaches the node.
func connectRoutes(connect *operations.Connect) []route {
	return []route{
		routes.Answers(wire.ListGateways, func(*httpserver.Call, wire.None) (wire.Page[wire.Gateway], error) {
			return wire.WholePage(connect.Gateways(), func(g wire.Gateway) wire.Gateway { return g }), nil
		}),
		routes.Answers(wire.GetGuide, func(c *httpserver.Call, r wire.ByName) (wire.Guide, error) {
			return connect.Guide(r.Name, c.Hostname())
		}),
		routes.Answers(wire.AddGatewayToken, func(c *httpserver.Call, r wire.ByName) (wire.Guide, error) {
			return connect.CreateToken(c.Context(), callerOf(c), r.Name, c.Hostname())
		}),
	}
}
