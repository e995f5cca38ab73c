package api

import (
	"cmp"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/wire"
)

// proposalRoutes are the routes of the proposed blocks of ranges.
func proposalRoutes(d *admin.Detection) []route {
	return []route{
		routes.Answers(wire.ListProposals, func(c *httpserver.Call, in wire.ProposalList) (wire.Page[wire.Proposal], error) {
			page, next, err := d.Proposals.Find(c.Context(), offences.ProposalState(cmp.Or(in.State, string(offences.OpenProposals))), in.Cursor, in.Limit)
			return wire.NewPage(page, next, fromProposal), err
		}),
		routes.Answers(wire.GetProposal, func(c *httpserver.Call, in wire.ByID) (wire.Proposal, error) {
			return shownProposal(d.Proposals.ByID(c.Context(), in.ID))
		}),
		routes.Answers(wire.AcceptProposal, func(c *httpserver.Call, in wire.AcceptProposalRequest) (wire.Proposal, error) {
			accepted, err := d.Proposals.Accept(c.Context(), callerOf(c), in)
			if err != nil {
				return wire.Proposal{}, err
			}
			return fromProposal(accepted.Proposal), nil
		}),
		routes.Answers(wire.DismissProposal, func(c *httpserver.Call, in wire.EndRequest) (wire.Proposal, error) {
			return shownProposal(d.Proposals.Dismiss(c.Context(), callerOf(c), in.ID, in.Reason))
		}),
	}
}

func shownProposal(p *offences.Proposal, err error) (wire.Proposal, error) {
	if err != nil {
		return wire.Proposal{}, err
	}
	return fromProposal(p), nil
}
