package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/stint-dev/stint/internal/wire"
)

// Audit reads the audit log and undoes changes.
type Audit struct{ conn *conn }

// List returns the changes that filter selects, newest first: at most limit, all for 0.
// filter holds the API's query parameters.
func (a Audit) List(ctx context.Context, filter url.Values, limit int) (Listing[wire.AuditEntry], error) {
	return list[wire.AuditEntry](ctx, a.conn, wire.PathAudit, filter, limit)
}

// Get returns one change.
func (a Audit) Get(ctx context.Context, id int64) (*wire.AuditEntry, error) {
	return call[wire.AuditEntry](ctx, a.conn, get(auditPath(id)))
}

// Undo undoes a change and returns the new change. If it makes a broad entry active
// again, it needs confirm.
func (a Audit) Undo(ctx context.Context, id int64, confirm string) (*wire.AuditEntry, error) {
	return call[wire.AuditEntry](ctx, a.conn, post(auditPath(id)+"/undo", wire.UndoRequest{Confirm: confirm}))
}

// Verify verifies the hash chain of the audit log, and that it contains head unless that
// is empty.
func (a Audit) Verify(ctx context.Context, head string) (*wire.AuditVerification, error) {
	return call[wire.AuditVerification](ctx, a.conn, get(wire.PathAudit+"/verify").with(param("head", head)))
}

func auditPath(id int64) string { return wire.PathAudit + "/" + strconv.FormatInt(id, 10) }
