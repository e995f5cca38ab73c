package api

import (
	"net/http"

	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/nodes"
	"github.com/stint-dev/stint/internal/wire"
)

var opListNodes = &Operation{
	ID: "listNodes", Tag: "health", Summary: "The nodes that were heard of lately, and how they do.",
	Answers: ok("The nodes by name.", wire.Page[wire.Node]{}),
}

func (s *API) listNodes(c *httpserver.Call) error {
	ctx := c.Context()
	all, err := s.Nodes.Nodes(ctx, s.Now().Add(-nodes.Gone))
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, wholePage(all, fromNode))
}
