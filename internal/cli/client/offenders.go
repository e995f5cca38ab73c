package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	v1 "github.com/stint-dev/stint/internal/api/v1"
)

// Offenders returns the report that filter, in the API's query parameters,
// selects: at most limit rows, all for 0.
func (c *Client) Offenders(ctx context.Context, filter url.Values, limit int) (*v1.OffenderReport, error) {
	query := url.Values{}
	for name, values := range filter {
		query[name] = values
	}
	var whole *v1.OffenderReport
	for {
		ask := pageSize
		if whole != nil && limit > 0 {
			ask = min(ask, limit-len(whole.Items))
		} else if limit > 0 {
			ask = min(ask, limit)
		}
		query.Set("limit", strconv.Itoa(ask))
		page := &v1.OffenderReport{}
		if err := c.do(ctx, request{method: http.MethodGet, path: v1.PathOffenders, query: query}, page); err != nil {
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
func (c *Client) Offence(ctx context.Context, id string) (*v1.OffenceRecord, error) {
	found := &v1.OffenceRecord{}
	err := c.do(ctx, request{method: http.MethodGet, path: v1.PathOffences + "/" + url.PathEscape(id)}, found)
	return found, err
}

// Traffic returns what was asked over a span.
func (c *Client) Traffic(ctx context.Context, filter url.Values) (*v1.Traffic, error) {
	found := &v1.Traffic{}
	err := c.do(ctx, request{method: http.MethodGet, path: v1.PathTraffic, query: filter}, found)
	return found, err
}

// RuleTotals returns what each rule and block refused over a span.
func (c *Client) RuleTotals(ctx context.Context, filter url.Values) ([]v1.RuleTotal, error) {
	var page v1.Page[v1.RuleTotal]
	err := c.do(ctx, request{method: http.MethodGet, path: v1.PathTraffic + "/rules", query: filter}, &page)
	return page.Items, err
}

// Proposals returns proposals of wider blocks, open ones or all.
func (c *Client) Proposals(ctx context.Context, all bool) ([]v1.Proposal, error) {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	if all {
		query.Set("state", "all")
	}
	var page v1.Page[v1.Proposal]
	err := c.do(ctx, request{method: http.MethodGet, path: v1.PathProposals, query: query}, &page)
	return page.Items, err
}

// Proposal returns one proposal with its evidence.
func (c *Client) Proposal(ctx context.Context, id string) (*v1.Proposal, error) {
	p := &v1.Proposal{}
	err := c.do(ctx, request{method: http.MethodGet, path: proposalPath(id)}, p)
	return p, err
}

// AcceptProposal blocks the range of a proposal.
func (c *Client) AcceptProposal(ctx context.Context, id string, r v1.AcceptProposalRequest) (*v1.Proposal, error) {
	p := &v1.Proposal{}
	err := c.do(ctx, request{method: http.MethodPost, path: proposalPath(id) + "/accept", body: r}, p)
	return p, err
}

// DismissProposal puts a proposal away.
func (c *Client) DismissProposal(ctx context.Context, id, reason string) (*v1.Proposal, error) {
	p := &v1.Proposal{}
	err := c.do(ctx, request{method: http.MethodPost, path: proposalPath(id) + "/dismiss", body: v1.EndRequest{Reason: reason}}, p)
	return p, err
}

func proposalPath(id string) string { return v1.PathProposals + "/" + url.PathEscape(id) }

// EscalationEvents returns what escalations did over a span, the newest first.
func (c *Client) EscalationEvents(ctx context.Context, filter url.Values) ([]v1.EscalationEvent, error) {
	var page v1.Page[v1.EscalationEvent]
	err := c.do(ctx, request{method: http.MethodGet, path: v1.PathEscalations + "/events", query: filter}, &page)
	return page.Items, err
}

// EscalationPauses returns the escalations that the guard stopped.
func (c *Client) EscalationPauses(ctx context.Context) ([]v1.EscalationPause, error) {
	return whole[v1.EscalationPause](ctx, c, v1.PathEscalations+"/paused")
}

// ResumeEscalation lets a paused escalation go on.
func (c *Client) ResumeEscalation(ctx context.Context, policy string) error {
	err := c.do(ctx, request{method: http.MethodPost, path: v1.PathEscalations + "/" + url.PathEscape(policy) + "/resume"}, nil)
	return err
}
