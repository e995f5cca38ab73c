package api

import (
	"cmp"
	"net/http"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/wire"
)

// proposalHandler serves the proposed blocks of ranges.
type proposalHandler struct {
	common
	detection *admin.Detection
}

func (h *proposalHandler) routes() []route {
	const proposal = wire.PathProposals + "/:id"
	return []route{
		onAdmin(get, wire.PathProposals, identity.Read, h.listProposals, opListProposals),
		onAdmin(get, proposal, identity.Read, h.getProposal, opGetProposal),
		onAdmin(post, proposal+"/accept", identity.Operate, h.acceptProposal, opAcceptProposal),
		onAdmin(post, proposal+"/dismiss", identity.Operate, h.dismissProposal, opDismissProposal),
	}
}

var proposalStates = []string{string(offences.OpenProposals), string(offences.DecidedProposals), string(offences.AllProposals)}

var (
	opListProposals = &openapi.Operation{
		ID: "listProposals", Tag: "offenders", Summary: "List the proposals to block a range in which many keys offended.",
		Query:   []openapi.Param{{Name: "state", Doc: "The state of the proposals; open if omitted.", Enum: proposalStates}, cursorParam, limitParam},
		Answers: ok("The proposals, the newest first.", wire.Page[wire.Proposal]{}),
	}
	opGetProposal = &openapi.Operation{
		ID: "getProposal", Tag: "offenders", Summary: "Show a proposal with its evidence.",
		Answers: ok("The proposal.", wire.Proposal{}),
	}
	opAcceptProposal = &openapi.Operation{
		ID: "acceptProposal", Tag: "offenders", Summary: "Block the range of a proposal.", Body: wire.AcceptProposalRequest{}, BodyOptional: true,
		Answers: ok("The accepted proposal with its block's id.", wire.Proposal{}),
	}
	opDismissProposal = &openapi.Operation{
		ID: "dismissProposal", Tag: "offenders", Summary: "Close a proposal; its range is left alone for a day.", Body: wire.EndRequest{}, BodyOptional: true,
		Answers: ok("The dismissed proposal.", wire.Proposal{}),
	}
)

func (h *proposalHandler) listProposals(c *httpserver.Call) error {
	q := c.ParseQuery("state", "cursor", "limit")
	state := offences.ProposalState(cmp.Or(q.OneOf("state", proposalStates...), string(offences.OpenProposals)))
	cursor, limit := q.Raw("cursor"), q.Limit()
	if q.Err() != nil {
		return q.Err()
	}
	page, next, err := h.detection.Proposals.Find(c.Context(), state, cursor, limit)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, routes.CursorPage(page, next, fromProposal))
}

func (h *proposalHandler) getProposal(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	p, err := h.detection.Proposals.ByID(c.Context(), id)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, fromProposal(p))
}

func (h *proposalHandler) acceptProposal(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	var request wire.AcceptProposalRequest
	if err := c.DecodeOptional(&request); err != nil {
		return err
	}
	p, err := h.detection.Proposals.Accept(c.Context(), callerOf(c), id, admin.AcceptProposal{Reason: request.Reason, Expiry: admin.ExpiryOf(request.ExpiresIn, request.ExpiresAt), Confirm: request.Confirm})
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, fromProposal(p.Proposal))
}

func (h *proposalHandler) dismissProposal(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	var request wire.EndRequest
	if err := c.DecodeOptional(&request); err != nil {
		return err
	}
	p, err := h.detection.Proposals.Dismiss(c.Context(), callerOf(c), id, request.Reason)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, fromProposal(p))
}
