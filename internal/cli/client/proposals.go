package client

import (
	"context"
	"net/url"

	"github.com/stint-dev/stint/internal/wire"
)

// Proposals decides on proposed range blocks.
type Proposals struct{ conn *conn }

// List returns the proposals in a state, "open", "decided" or "all", newest first, at most
// limit, every one for 0.
func (p Proposals) List(ctx context.Context, state string, limit int) (Listing[wire.Proposal], error) {
	return list[wire.Proposal](ctx, p.conn, wire.PathProposals, param("state", state), limit)
}

// Get returns one proposal with its evidence.
func (p Proposals) Get(ctx context.Context, id string) (*wire.Proposal, error) {
	return call[wire.Proposal](ctx, p.conn, get(proposalPath(id)))
}

// Accept blocks the range of a proposal.
func (p Proposals) Accept(ctx context.Context, id string, r wire.AcceptProposalRequest) (*wire.Proposal, error) {
	return call[wire.Proposal](ctx, p.conn, post(proposalPath(id)+"/accept", r))
}

// Dismiss dismisses a proposal without a block.
func (p Proposals) Dismiss(ctx context.Context, id, reason string) (*wire.Proposal, error) {
	return call[wire.Proposal](ctx, p.conn, post(proposalPath(id)+"/dismiss", wire.EndRequest{Reason: reason}))
}

func proposalPath(id string) string { return wire.PathProposals + "/" + url.PathEscape(id) }
