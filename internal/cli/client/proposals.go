package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/stint-dev/stint/internal/wire"
)

// Proposals decides on proposed range blocks.
type Proposals struct{ conn *conn }

// List returns the open proposals, or all.
func (p Proposals) List(ctx context.Context, all bool) ([]wire.Proposal, error) {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	if all {
		query.Set("state", "all")
	}
	return items[wire.Proposal](ctx, p.conn, get(wire.PathProposals).with(query))
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
