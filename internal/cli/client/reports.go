package client

import (
	"context"
	"io"
	"net/url"

	"github.com/stint-dev/stint/internal/wire"
)

// Reports reads and creates the daily and weekly reports.
type Reports struct{ conn *conn }

// List returns the stored reports of a kind, or of all kinds if it is empty, newest first, at
// most limit, all for 0.
func (r Reports) List(ctx context.Context, kind string, limit int) (Listing[wire.Report], error) {
	return list[wire.Report](ctx, r.conn, wire.PathReports, param("kind", kind), limit)
}

// Create creates the report of the last whole day or week now.
func (r Reports) Create(ctx context.Context, kind string) (*wire.Report, error) {
	return call[wire.Report](ctx, r.conn, post(wire.PathReports, wire.ReportRequest{Kind: kind}))
}

// Open opens a report as json, csv or html. The caller closes it.
func (r Reports) Open(ctx context.Context, id, format string) (io.ReadCloser, error) {
	return r.conn.openBody(ctx, get(wire.PathReports+"/"+url.PathEscape(id)).with(param("format", format)))
}
