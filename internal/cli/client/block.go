package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/stint-dev/stint/internal/wire"
)

// Blocks returns the blocks that filter, in the API's query parameters,
// selects: at most limit, all for 0.
func (c *Client) Blocks(ctx context.Context, filter url.Values, limit int) (Listing[wire.Block], error) {
	return list[wire.Block](ctx, c, wire.PathBlocks, filter, limit)
}

// Block returns one block.
func (c *Client) Block(ctx context.Context, id string) (*wire.Block, error) {
	b := &wire.Block{}
	err := c.do(ctx, request{method: http.MethodGet, path: blockPath(id)}, b)
	return b, err
}

// AddBlock adds a block; a wide one needs Confirm.
func (c *Client) AddBlock(ctx context.Context, b wire.BlockRequest) (*wire.AddedBlock, error) {
	added := &wire.AddedBlock{}
	err := c.do(ctx, request{method: http.MethodPost, path: wire.PathBlocks, body: b}, added)
	return added, err
}

// EditBlock changes the reason or the end of a block.
func (c *Client) EditBlock(ctx context.Context, id string, change wire.EndPatch) (*wire.Block, error) {
	b := &wire.Block{}
	err := c.do(ctx, request{method: http.MethodPatch, path: blockPath(id), body: change}, b)
	return b, err
}

// LiftBlock ends a block now. The reason may be left out.
func (c *Client) LiftBlock(ctx context.Context, id, reason string) (*wire.Block, error) {
	b := &wire.Block{}
	err := c.do(ctx, request{method: http.MethodDelete, path: blockPath(id), body: wire.EndRequest{Reason: reason}}, b)
	return b, err
}

func blockPath(id string) string { return wire.PathBlocks + "/" + url.PathEscape(id) }

// Exemptions returns the exemptions that filter selects, as Blocks does.
func (c *Client) Exemptions(ctx context.Context, filter url.Values, limit int) (Listing[wire.Exemption], error) {
	return list[wire.Exemption](ctx, c, wire.PathExemptions, filter, limit)
}

// Exemption returns one exemption.
func (c *Client) Exemption(ctx context.Context, id string) (*wire.Exemption, error) {
	e := &wire.Exemption{}
	err := c.do(ctx, request{method: http.MethodGet, path: exemptionPath(id)}, e)
	return e, err
}

// AddExemption adds an exemption; a wide one needs Confirm.
func (c *Client) AddExemption(ctx context.Context, e wire.ExemptionRequest) (*wire.AddedExemption, error) {
	added := &wire.AddedExemption{}
	err := c.do(ctx, request{method: http.MethodPost, path: wire.PathExemptions, body: e}, added)
	return added, err
}

// EditExemption changes the reason or the end of an exemption.
func (c *Client) EditExemption(ctx context.Context, id string, change wire.EndPatch) (*wire.Exemption, error) {
	e := &wire.Exemption{}
	err := c.do(ctx, request{method: http.MethodPatch, path: exemptionPath(id), body: change}, e)
	return e, err
}

// RemoveExemption ends an exemption now. The reason may be left out.
func (c *Client) RemoveExemption(ctx context.Context, id, reason string) (*wire.Exemption, error) {
	e := &wire.Exemption{}
	err := c.do(ctx, request{method: http.MethodDelete, path: exemptionPath(id), body: wire.EndRequest{Reason: reason}}, e)
	return e, err
}

func exemptionPath(id string) string { return wire.PathExemptions + "/" + url.PathEscape(id) }
