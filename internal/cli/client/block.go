package client

import (
	"context"
	"net/http"
	"net/url"

	v1 "github.com/stint-dev/stint/internal/api/v1"
)

// Blocks returns the blocks that filter, in the API's query parameters,
// selects: at most limit, all for 0.
func (c *Client) Blocks(ctx context.Context, filter url.Values, limit int) (Listing[v1.Block], error) {
	return list[v1.Block](ctx, c, v1.PathBlocks, filter, limit)
}

// Block returns one block.
func (c *Client) Block(ctx context.Context, id string) (*v1.Block, error) {
	b := &v1.Block{}
	err := c.do(ctx, request{method: http.MethodGet, path: blockPath(id)}, b)
	return b, err
}

// AddBlock adds a block; a wide one needs Confirm.
func (c *Client) AddBlock(ctx context.Context, b v1.BlockRequest) (*v1.AddedBlock, error) {
	added := &v1.AddedBlock{}
	err := c.do(ctx, request{method: http.MethodPost, path: v1.PathBlocks, body: b}, added)
	return added, err
}

// EditBlock changes the reason or the end of a block.
func (c *Client) EditBlock(ctx context.Context, id string, change v1.EndPatch) (*v1.Block, error) {
	b := &v1.Block{}
	err := c.do(ctx, request{method: http.MethodPatch, path: blockPath(id), body: change}, b)
	return b, err
}

// LiftBlock ends a block now. The reason may be left out.
func (c *Client) LiftBlock(ctx context.Context, id, reason string) (*v1.Block, error) {
	b := &v1.Block{}
	err := c.do(ctx, request{method: http.MethodDelete, path: blockPath(id), body: v1.EndRequest{Reason: reason}}, b)
	return b, err
}

func blockPath(id string) string { return v1.PathBlocks + "/" + url.PathEscape(id) }

// Exemptions returns the exemptions that filter selects, as Blocks does.
func (c *Client) Exemptions(ctx context.Context, filter url.Values, limit int) (Listing[v1.Exemption], error) {
	return list[v1.Exemption](ctx, c, v1.PathExemptions, filter, limit)
}

// Exemption returns one exemption.
func (c *Client) Exemption(ctx context.Context, id string) (*v1.Exemption, error) {
	e := &v1.Exemption{}
	err := c.do(ctx, request{method: http.MethodGet, path: exemptionPath(id)}, e)
	return e, err
}

// AddExemption adds an exemption; a wide one needs Confirm.
func (c *Client) AddExemption(ctx context.Context, e v1.ExemptionRequest) (*v1.AddedExemption, error) {
	added := &v1.AddedExemption{}
	err := c.do(ctx, request{method: http.MethodPost, path: v1.PathExemptions, body: e}, added)
	return added, err
}

// EditExemption changes the reason or the end of an exemption.
func (c *Client) EditExemption(ctx context.Context, id string, change v1.EndPatch) (*v1.Exemption, error) {
	e := &v1.Exemption{}
	err := c.do(ctx, request{method: http.MethodPatch, path: exemptionPath(id), body: change}, e)
	return e, err
}

// RemoveExemption ends an exemption now. The reason may be left out.
func (c *Client) RemoveExemption(ctx context.Context, id, reason string) (*v1.Exemption, error) {
	e := &v1.Exemption{}
	err := c.do(ctx, request{method: http.MethodDelete, path: exemptionPath(id), body: v1.EndRequest{Reason: reason}}, e)
	return e, err
}

func exemptionPath(id string) string { return v1.PathExemptions + "/" + url.PathEscape(id) }
