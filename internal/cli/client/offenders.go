package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/stint-dev/stint/internal/wire"
)

// Offenders returns the report that filter, in the API's query parameters,
// selects: at most limit rows, all for 0.
func (c *Client) Offenders(ctx context.Context, filter url.Values, limit int) (*wire.OffenderReport, error) {
	query := url.Values{}
	for name, values := range filter {
		query[name] = values
	}
	var whole *wire.OffenderReport
	for {
		ask := pageSize
		if whole != nil && limit > 0 {
			ask = min(ask, limit-len(whole.Items))
		} else if limit > 0 {
			ask = min(ask, limit)
		}
		query.Set("limit", strconv.Itoa(ask))
		page := &wire.OffenderReport{}
		if err := c.do(ctx, request{method: http.MethodGet, path: wire.PathOffenders, query: query}, page); err != nil {
			return nil, err
		}
		if whole != nil {
			page.Items = append(whole.Items, page.Items...)
		}
		whole = page
		if whole.NextCursor == "" || limit > 0 && len(whole.Items) >= limit {
			return whole, nil
		}
		query.Set("cursor", string(whole.NextCursor))
	}
}

// Offence returns what is known under a refusal's id.
func (c *Client) Offence(ctx context.Context, id string) (*wire.OffenceRecord, error) {
	found := &wire.OffenceRecord{}
	err := c.do(ctx, request{method: http.MethodGet, path: wire.PathOffences + "/" + url.PathEscape(id)}, found)
	return found, err
}

// Traffic returns what was asked over a span.
func (c *Client) Traffic(ctx context.Context, filter url.Values) (*wire.Traffic, error) {
	found := &wire.Traffic{}
	err := c.do(ctx, request{method: http.MethodGet, path: wire.PathTraffic, query: filter}, found)
	return found, err
}

// RuleTotals returns what each rule and block refused over a span.
func (c *Client) RuleTotals(ctx context.Context, filter url.Values) ([]wire.RuleTotal, error) {
	var page wire.Page[wire.RuleTotal]
	err := c.do(ctx, request{method: http.MethodGet, path: wire.PathTraffic + "/rules", query: filter}, &page)
	return page.Items, err
}

// Proposals returns proposals of wider blocks, open ones or all.
func (c *Client) Proposals(ctx context.Context, all bool) ([]wire.Proposal, error) {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	if all {
		query.Set("state", "all")
	}
	var page wire.Page[wire.Proposal]
	err := c.do(ctx, request{method: http.MethodGet, path: wire.PathProposals, query: query}, &page)
	return page.Items, err
}

// Proposal returns one proposal with its evidence.
func (c *Client) Proposal(ctx context.Context, id string) (*wire.Proposal, error) {
	p := &wire.Proposal{}
	err := c.do(ctx, request{method: http.MethodGet, path: proposalPath(id)}, p)
	return p, err
}

// AcceptProposal blocks the range of a proposal.
func (c *Client) AcceptProposal(ctx context.Context, id string, r wire.AcceptProposalRequest) (*wire.Proposal, error) {
	p := &wire.Proposal{}
	err := c.do(ctx, request{method: http.MethodPost, path: proposalPath(id) + "/accept", body: r}, p)
	return p, err
}

// DismissProposal puts a proposal away.
func (c *Client) DismissProposal(ctx context.Context, id, reason string) (*wire.Proposal, error) {
	p := &wire.Proposal{}
	err := c.do(ctx, request{method: http.MethodPost, path: proposalPath(id) + "/dismiss", body: wire.EndRequest{Reason: reason}}, p)
	return p, err
}

func proposalPath(id string) string { return wire.PathProposals + "/" + url.PathEscape(id) }

// EscalationEvents returns what escalations did over a span, the newest first.
func (c *Client) EscalationEvents(ctx context.Context, filter url.Values) ([]wire.EscalationEvent, error) {
	var page wire.Page[wire.EscalationEvent]
	err := c.do(ctx, request{method: http.MethodGet, path: wire.PathEscalations + "/events", query: filter}, &page)
	return page.Items, err
}

// EscalationPauses returns the escalations that the guard stopped.
func (c *Client) EscalationPauses(ctx context.Context) ([]wire.EscalationPause, error) {
	return whole[wire.EscalationPause](ctx, c, wire.PathEscalations+"/paused")
}

// ResumeEscalation lets a paused escalation go on.
func (c *Client) ResumeEscalation(ctx context.Context, policy string) error {
	err := c.do(ctx, request{method: http.MethodPost, path: wire.PathEscalations + "/" + url.PathEscape(policy) + "/resume"}, nil)
	return err
}
