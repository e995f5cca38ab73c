package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/stint-dev/stint/internal/wire"
)

// ExplainKey says what applies to a key now and why; policy names another
// policy than its own, "" for that.
func (c *Client) ExplainKey(ctx context.Context, key, policy string) (*wire.KeyExplanation, error) {
	found := &wire.KeyExplanation{}
	err := c.do(ctx, request{method: http.MethodGet, path: wire.PathKeys, query: keyQuery(key, policy)}, found)
	return found, err
}

// ResetKey forgets the requests of a key, under one policy or all for "".
func (c *Client) ResetKey(ctx context.Context, key, policy string) (*wire.KeyReset, error) {
	reset := &wire.KeyReset{}
	err := c.do(ctx, request{method: http.MethodDelete, path: wire.PathKeys, query: keyQuery(key, policy)}, reset)
	return reset, err
}

func keyQuery(key, policy string) url.Values {
	query := url.Values{"key": {key}}
	if policy != "" {
		query.Set("policy", policy)
	}
	return query
}
