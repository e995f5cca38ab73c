package api

import (
	"net/http"

	v1 "github.com/stint-dev/stint/internal/api/v1"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/nodes"
)

var opListNodes = &Operation{
	ID: "listNodes", Tag: "health", Summary: "The nodes that were heard of lately, and how they do.",
	Answers: ok("The nodes by name.", v1.Page[v1.Node]{}),
}

func (s *API) listNodes(c *httpserver.Call) error {
	ctx := c.Context()
	all, err := s.Nodes.Nodes(ctx, s.Now().Add(-nodes.Gone))
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, wholePage(all, v1.FromNode))
}
