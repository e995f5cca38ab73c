package api

import (
	"net/http"

	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

func (s *API) listProposals(c *httpserver.Call) error {
	q := c.ParseQuery("state", "limit")
	openOnly := q.OneOf("state", "open", "all") != "all"
	limit := q.Limit()
	if q.Err() != nil {
		return q.Err()
	}
	if limit == 0 {
		limit = 100
	}
	ctx := c.Context()
	all, err := s.Offenders.Store.FindProposals(ctx, openOnly, limit)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, wholePage(all, fromProposal))
}

func (s *API) getProposal(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	ctx := c.Context()
	p, err := s.Offenders.Store.FindProposalByID(ctx, id)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, fromProposal(p))
}

func (s *API) acceptProposal(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	var request wire.AcceptProposalRequest
	if err := c.DecodeOptional(&request); err != nil {
		return err
	}
	if err := httpserver.CheckLine("reason", request.Reason, maxReason); err != nil {
		return err
	}
	expires, err := s.end(request.ExpiresIn, request.ExpiresAt)
	if err != nil {
		return err
	}
	ctx := c.Context()
	p, err := s.Offenders.AcceptProposal(ctx, c.Actor(), id, expires, request.Reason)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, fromProposal(p))
}

func (s *API) dismissProposal(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	var request wire.EndRequest
	if err := c.DecodeOptional(&request); err != nil {
		return err
	}
	if err := httpserver.CheckLine("reason", request.Reason, maxReason); err != nil {
		return err
	}
	ctx := c.Context()
	p, err := s.Offenders.DismissProposal(ctx, c.Actor(), id, request.Reason)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, fromProposal(p))
}
