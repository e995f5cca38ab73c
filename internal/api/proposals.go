package api

import (
	"net/http"

	v1 "github.com/stint-dev/stint/internal/api/v1"
)

func (s *Server) listProposals(c *Call) error {
	q := c.query("state", "limit")
	openOnly := q.oneOf("state", "open", "all") != "all"
	limit := q.limit()
	if q.err != nil {
		return q.err
	}
	if limit == 0 {
		limit = 100
	}
	ctx, cancel := c.StoreContext()
	defer cancel()
	all, err := s.Offenders.Store.FindProposals(ctx, openOnly, limit)
	if err != nil {
		return err
	}
	return sendJSON(c, http.StatusOK, wholePage(all, v1.FromProposal))
}

func (s *Server) getProposal(c *Call) error {
	id, err := c.param("id")
	if err != nil {
		return err
	}
	ctx, cancel := c.StoreContext()
	defer cancel()
	p, err := s.Offenders.Store.FindProposalByID(ctx, id)
	if err != nil {
		return err
	}
	return sendJSON(c, http.StatusOK, v1.FromProposal(p))
}

func (s *Server) acceptProposal(c *Call) error {
	id, err := c.param("id")
	if err != nil {
		return err
	}
	var request v1.AcceptProposalRequest
	if err := decodeOptional(c, &request); err != nil {
		return err
	}
	if err := checkLine("reason", request.Reason, maxReason); err != nil {
		return err
	}
	expires, err := s.end(request.ExpiresIn, request.ExpiresAt)
	if err != nil {
		return err
	}
	ctx, cancel := c.StoreContext()
	defer cancel()
	p, err := s.Offenders.AcceptProposal(ctx, c.Actor(), id, expires, request.Reason)
	if err != nil {
		return err
	}
	return sendJSON(c, http.StatusOK, v1.FromProposal(p))
}

func (s *Server) dismissProposal(c *Call) error {
	id, err := c.param("id")
	if err != nil {
		return err
	}
	var request v1.EndRequest
	if err := decodeOptional(c, &request); err != nil {
		return err
	}
	if err := checkLine("reason", request.Reason, maxReason); err != nil {
		return err
	}
	ctx, cancel := c.StoreContext()
	defer cancel()
	p, err := s.Offenders.DismissProposal(ctx, c.Actor(), id, request.Reason)
	if err != nil {
		return err
	}
	return sendJSON(c, http.StatusOK, v1.FromProposal(p))
}
