package client

import (
	"context"
	"io"
	"net/url"

	"github.com/stint-dev/stint/internal/wire"
)

// Reports reads and creates the daily and weekly reports.
type Reports struct{ conn *conn }

// List returns the stored reports of a kind, or all if the kind is empty, newest first.
func (r Reports) List(ctx context.Context, kind string) ([]wire.Report, error) {
	return items[wire.Report](ctx, r.conn, get(wire.PathReports).with(param("kind", kind)))
}

// Create creates the report of the last whole day or week now.
func (r Reports) Create(ctx context.Context, kind string) (*wire.Report, error) {
	return call[wire.Report](ctx, r.conn, post(wire.PathReports, wire.ReportRequest{Kind: kind}))
}

// Open opens a report as json, csv or html. The caller closes it.
func (r Reports) Open(ctx context.Context, id, format string) (io.ReadCloser, error) {
	return r.conn.openBody(ctx, get(wire.PathReports+"/"+url.PathEscape(id)).with(param("format", format)))
}
