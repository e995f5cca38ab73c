package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/stint-dev/stint/internal/wire"
)

// Audit returns the recorded changes that filter, in the API's query
// parameters, selects, the newest first: at most limit, all for 0.
func (c *Client) Audit(ctx context.Context, filter url.Values, limit int) (Listing[wire.AuditEntry], error) {
	return list[wire.AuditEntry](ctx, c, wire.PathAudit, filter, limit)
}

// AuditEntry returns one recorded change.
func (c *Client) AuditEntry(ctx context.Context, id int64) (*wire.AuditEntry, error) {
	e := &wire.AuditEntry{}
	err := c.do(ctx, request{method: http.MethodGet, path: wire.PathAudit + "/" + strconv.FormatInt(id, 10)}, e)
	return e, err
}

// Undo brings back what stood before a change and returns the change that
// this made. Where it brings back what is broad, it needs confirm, "" elsewhere.
func (c *Client) Undo(ctx context.Context, id int64, confirm string) (*wire.AuditEntry, error) {
	e := &wire.AuditEntry{}
	err := c.do(ctx, request{method: http.MethodPost, path: wire.PathAudit + "/" + strconv.FormatInt(id, 10) + "/undo", body: wire.UndoRequest{Confirm: confirm}}, e)
	return e, err
}

// VerifyAudit verifies the chain of the audit; head is one that was kept, "" for
// none.
func (c *Client) VerifyAudit(ctx context.Context, head string) (*wire.AuditVerification, error) {
	v := &wire.AuditVerification{}
	query := url.Values{}
	if head != "" {
		query.Set("head", head)
	}
	err := c.do(ctx, request{method: http.MethodGet, path: wire.PathAudit + "/verify", query: query}, v)
	return v, err
}
